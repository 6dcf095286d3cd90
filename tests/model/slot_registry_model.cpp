// mutates: include/verge/base/detail/slot_registry.hpp
//
// Explores the interleavings of threads that take chunk numbers, give them back and look them up.
// Exits with 1 and prints the guilty history if an assertion fails.  That a record is read before
// it is made, relacy reports by itself.

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include <verge/base/detail/spin_lock.hpp>

#include <memory>
#include <new>
#include <optional>

#include "relacy_std.hpp"

#include <verge/base/detail/slot_registry.hpp>
// clang-format on

namespace verge::detail {

struct slot_registry_access {
    template <class Registry>
    static void free_leaves(Registry& registry) {
        for (auto& root : registry.root_)
            std::default_delete<typename Registry::leaf>()(root.load(rl::mo_relaxed, $));
    }
};

}  // namespace verge::detail

namespace {

struct model_lock {
    rl::mutex mutex;
    void lock() { mutex.lock($); }
    void unlock() { mutex.unlock($); }
};

// As std::atomic, it has a value from the beginning.
template <class T>
struct model_atomic : rl::atomic<T> {
    model_atomic() : rl::atomic<T>(T()) {}
    model_atomic(T first) : rl::atomic<T>(first) {}
};

// Relacy has no atomic pointer to const.
template <>
struct model_atomic<const void*> : model_atomic<void*> {
    model_atomic(const void* first) : model_atomic<void*>(const_cast<void*>(first)) {}
    void store(const void* next, rl::memory_order order, rl::debug_info_param where) {
        model_atomic<void*>::store(const_cast<void*>(next), order, where);
    }
};

struct model_platform {
    template <class T>
    using atomic = model_atomic<T>;
    using lock = model_lock;
    static constexpr unsigned root_bits = 1;
    static constexpr unsigned leaf_bits = 1;
};

using registry = verge::detail::basic_slot_registry<model_platform>;

template <class Suite, int Threads>
struct registry_suite : rl::test_suite<Suite, Threads> {
    std::optional<registry> numbers;
    void before() { numbers.emplace(); }
    void after() {
        verge::detail::slot_registry_access::free_leaves(*numbers);
        numbers.reset();
    }
};

// R1: a lookup of any number, at any time, finds nothing or a whole record.
struct a_lookup_finds_a_whole_record : registry_suite<a_lookup_finds_a_whole_record, 3> {
    int owner = 0;
    void thread(unsigned index) {
        if (index == 0) {
            const auto claim = numbers->take();
            numbers->at(claim.number).assign(&owner, &owner, 0);
            return;
        }
        if (index == 1) {
            const auto claim = numbers->take();
            numbers->give_back(claim.number, claim.generation);
            return;
        }
        for (const std::uint32_t number : {0U, 1U, 2U, 4U}) {
            const void* const found = numbers->owner_of(number);
            RL_ASSERT(found == nullptr || found == &owner);
        }
    }
};

// R2: three threads, four numbers, two leaves: nobody has a number that another has, and a number
// that comes back has a generation that was not there before.
struct a_number_is_one_owner_s : registry_suite<a_number_is_one_owner_s, 3> {
    rl::var<int> holder[4];
    std::uint32_t next_generation[4] = {};
    void before() {
        registry_suite::before();
        for (int i = 0; i < 4; ++i)
            holder[i]($) = 0, next_generation[i] = 1;
    }
    void thread(unsigned index) {
        for (int round = 0; round < 2; ++round) {
            const auto claim = numbers->take();
            RL_ASSERT(claim.number < 4);
            RL_ASSERT(claim.generation == next_generation[claim.number]);
            holder[claim.number]($) = static_cast<int>(index) + 1;
            numbers->at(claim.number).assign(&holder[claim.number], nullptr, 0);
            RL_ASSERT(holder[claim.number]($) == static_cast<int>(index) + 1);
            ++next_generation[claim.number];
            numbers->give_back(claim.number, next_generation[claim.number]);
        }
    }
};

// R3: a pool whose timer has run parts with the chunk, and another pool gets the number.  Who finds
// that it is not the first pool's any more sees what the timer wrote.
struct gone_is_visible_after_a_trim : registry_suite<gone_is_visible_after_a_trim, 3> {
    rl::var<int> written;
    int first_pool = 0;
    int other_pool = 0;
    std::uint32_t number = 0;
    void before() {
        registry_suite::before();
        written($) = 0;
        number = numbers->take().number;
        numbers->at(number).assign(&first_pool, &first_pool, 1);
    }
    void thread(unsigned index) {
        if (index == 0) {
            written($) = 1;
            numbers->at(number).assign(nullptr, &first_pool, 1);
            numbers->give_back(number, 2);
        } else if (index == 1) {
            const auto claim = numbers->take();
            numbers->at(claim.number).assign(&other_pool, &other_pool, 0);
        } else if (numbers->owner_of(number) != &first_pool) {
            RL_ASSERT(written($) == 1);
        }
    }
};

}  // namespace

int main() {
    const bool ok = explore<a_lookup_finds_a_whole_record>(random_ones, 50'000) &&
                    explore<a_number_is_one_owner_s>(random_ones, 50'000) &&
                    explore<gone_is_visible_after_a_trim>(random_ones, 50'000);
    return ok ? 0 : 1;
}
