// bench/remote/task_account.cpp -- counts tasks that ran, without memory that workers share.

#include "remote/task_account.hpp"

#include "support/random.hpp"

namespace bench {
namespace {

std::atomic<std::uint64_t> last_number{0};

}  // namespace

thread_local constinit task_account::owned task_account::own_;

task_account::task_account() : number_(++last_number) {}

task_account::account& task_account::open_account() noexcept {
    // relaxed: only distinct numbers are wanted
    const std::size_t index = opened_.fetch_add(1, std::memory_order_relaxed);
    own_ = {number_, &accounts_.at(index)};
    return *own_.where;
}

std::uint64_t task_account::ran() const noexcept {
    std::uint64_t tasks = 0;
    for (const account& each : accounts_) {
        tasks += each.tasks.load(std::memory_order_acquire);  // acquire: pairs with note
    }
    return tasks;
}

std::uint64_t task_account::checksum() const noexcept {
    running_hash hash;
    hash.add(ran());
    std::uint64_t sum = 0;
    for (const account& each : accounts_) {
        sum += read(each.sum);
    }
    hash.add(sum);
    return hash.value();
}

}  // namespace bench
