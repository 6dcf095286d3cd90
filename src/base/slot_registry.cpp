#include <verge/base/detail/slot_registry.hpp>
#include <verge/base/detail/spin_lock.hpp>

#include <memory>
#include <new>

#include <pthread.h>

namespace verge::detail {

constinit std::atomic<slot_registry::leaf*> slot_registry::root[std::size_t{1} << root_bits] = {};

namespace {

constinit spin_lock registry_lock;
constexpr std::uint32_t no_number = 0xFFFF'FFFF;

// Numbers below `fresh` have been used; those given back are linked from `free_head`.
std::uint32_t fresh VERGE_GUARDED_BY(registry_lock) = 0;
std::uint32_t free_head VERGE_GUARDED_BY(registry_lock) = no_number;

// A child of a fork has none of its parent's threads: a lock that one of them held would stay
// locked. So it is taken over the fork. Registered before main(): registering at first use could
// itself be cut in two by a fork. Without memory for it at that time, forks are as they were.
[[maybe_unused]] const int held_over_forks =
    ::pthread_atfork([]() VERGE_NO_THREAD_SAFETY_ANALYSIS { registry_lock.lock(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { registry_lock.unlock(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { registry_lock.unlock(); });

}  // namespace

slot_registry::claim slot_registry::take() {
    std::unique_ptr<leaf> spare;  // made outside the lock, used if the next number needs one
    for (;;) {
        {
            const lock_scope hold(registry_lock);
            if (free_head != no_number) {
                const std::uint32_t number = free_head;
                record& r = at(number);
                free_head = r.next_free;
                return {number, r.generation};
            }
            if (fresh >> number_bits != 0) throw std::bad_alloc();
            if (find(fresh) == nullptr && spare != nullptr) {
                // release: pairs with the acquire in find().
                root[fresh >> leaf_bits].store(spare.release(), std::memory_order_release);
            }
            if (const record* const r = find(fresh); r != nullptr) return {fresh++, r->generation};
        }
        spare = std::make_unique<leaf>();
    }
}

void slot_registry::give_back(std::uint32_t number, std::uint32_t generation) noexcept {
    record& r = at(number);
    r.assign(nullptr, nullptr, 0);
    if (generation == last_generation) return;  // retired
    const lock_scope hold(registry_lock);
    r.generation = generation;
    r.next_free = free_head;
    free_head = number;
}

}  // namespace verge::detail
