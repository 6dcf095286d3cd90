// bench/remote/task_account.hpp -- counts tasks that ran, without memory that workers share.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bench {

class task_account {
public:
    task_account();

    /// In each task, on the thread that runs it.
    void note(std::uint64_t index) noexcept {
        account& mine = own_.of == number_ ? *own_.where : open_account();
        mine.sum.store(read(mine.sum) + index * index, std::memory_order_relaxed);
        // release: pairs with the acquire in ran(); the sum is seen with it
        mine.tasks.store(read(mine.tasks) + 1, std::memory_order_release);
    }

    [[nodiscard]] std::uint64_t ran() const noexcept;
    [[nodiscard]] std::uint64_t checksum() const noexcept;  ///< Over which tasks ran.

private:
    struct alignas(64) account {
        std::atomic<std::uint64_t> tasks{0}, sum{0};  // written by the thread whose it is
    };
    struct owned {
        std::uint64_t of = 0;
        account* where = nullptr;
    };

    // relaxed: the only writer reads
    static std::uint64_t read(const std::atomic<std::uint64_t>& own) noexcept {
        return own.load(std::memory_order_relaxed);
    }
    account& open_account() noexcept;

    static thread_local constinit owned own_;

    std::uint64_t number_;                // of this object, never used again
    std::atomic<std::size_t> opened_{0};  // each thread adds 1
    std::array<account, 128> accounts_;   // more than the most threads of a peer
};

}  // namespace bench
