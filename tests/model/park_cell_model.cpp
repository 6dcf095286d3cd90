// mutates: include/verge/sync/detail/park_cell.hpp
//
// Explores the interleavings of an owner that waits and of those who may end its wait: a notifier,
// a timer, an interrupter.  Exits with 1 and prints the guilty history if an assertion fails.
//
// The owner's thread is also the code that runs after the switch: it calls commit().  What is on
// the owner's stack, and what a claimer leaves for it, are rl::vars: relacy reports any access that
// is not ordered after the last one.

#include "relacy_std.hpp"
#include <verge/sync/detail/park_cell.hpp>

namespace {

using verge::detail::sync::claim_result;
using verge::detail::sync::wake_reason;

struct model_platform {
    template <class T>
    using atomic = rl::atomic<T>;
};
using cell_type = verge::detail::sync::basic_park_cell<model_platform>;

constexpr unsigned reasons = 3;

// An owner with its cell and a place to be made ready.
template <class Suite, int Threads>
struct owner_suite : rl::test_suite<Suite, Threads> {
    cell_type cell;
    rl::atomic<std::uint64_t> known;  // the epoch that the owner has told others
    rl::atomic<std::uint64_t> ready;  // the epoch whose owner has been made ready
    rl::var<int> stack;               // what the owner leaves there when it switches away
    rl::var<int> message[reasons];    // what a claimer writes before its claim
    // Plain: relacy runs one thread at a time, and these are for assertions only.
    std::uint64_t begun = 0;       // the last epoch that began
    std::uint64_t left = 0;        // the last epoch in which the owner has left its stack
    std::uint64_t made_ready = 0;  // the last epoch in which it was made ready
    int won[3] = {};               // claims that succeeded, by epoch

    void before() {
        known.store(0, rl::mo_relaxed, $);
        ready.store(0, rl::mo_relaxed, $);
        stack($) = 0;
        for (auto& m : message)
            m($) = 0;
    }

    // By whoever must: once a wait, not before the owner has left its stack, which is then his.
    void make_ready(std::uint64_t epoch) {
        RL_ASSERT(left == epoch);
        RL_ASSERT(made_ready < epoch);
        made_ready = epoch;
        RL_ASSERT(stack($) == static_cast<int>(epoch));
        stack($) = -1;
        ready.store(epoch, rl::mo_release, $);  // as a run queue does
    }

    void note(claim_result result, std::uint64_t epoch) {
        if (result == claim_result::lost) return;
        ++won[epoch];
        if (result == claim_result::ready) make_ready(epoch);
    }

    void claim(std::uint64_t epoch, wake_reason why) {
        message[static_cast<unsigned>(why)]($) = 42;
        note(cell.claim(epoch, why), epoch);
    }

    // As waiter::request().
    void request(std::uint32_t what = 1) {
        if (what == 1) message[static_cast<unsigned>(wake_reason::interrupted)]($) = 42;
        const claim_result result = cell.request(what);
        note(result, begun);  // a request names no epoch: it is the last that began
    }

    std::uint64_t begin() {
        const std::uint64_t epoch = cell.begin();
        RL_ASSERT(epoch == begun + 1);
        return begun = epoch;
    }

    // The switch, the code after it, and the way back.
    wake_reason suspend(std::uint64_t epoch, bool interruptible) {
        stack($) = static_cast<int>(epoch);
        left = epoch;
        const bool parked = cell.commit(epoch, interruptible);
        if (!parked) make_ready(epoch);
        while (ready.load(std::memory_order_acquire) != epoch)
            rl::yield(1, $);
        RL_ASSERT(made_ready == epoch);
        const wake_reason why = finish();
        // A request claims by itself only what is parked: else the commit has done it.
        if (!parked && why == wake_reason::interrupted) ++won[epoch];
        return why;
    }
    wake_reason finish() {
        const wake_reason why = cell.finish();
        RL_ASSERT(message[static_cast<unsigned>(why)]($) == 42);
        return why;
    }

    // The owner tells others of its wait; they wait until it does.
    void tell(std::uint64_t epoch) { known.store(epoch, std::memory_order_release); }
    std::uint64_t told() {
        std::uint64_t epoch = 0;
        while ((epoch = known.load(std::memory_order_acquire)) == 0)
            rl::yield(1, $);
        return epoch;
    }

    // An interrupt that the owner has found: it sees what the interrupter wrote, and takes it away.
    void take_interrupt() {
        RL_ASSERT(message[static_cast<unsigned>(wake_reason::interrupted)]($) == 42);
        cell.take_away(1);
        RL_ASSERT(cell.requests() == 0);
    }
};

// One claim of many wins; the owner is made ready once, after it has left its stack; it sees what
// the winner wrote.  It looks at its requests, and tells others, as wait() does.
struct one_claim_wins : owner_suite<one_claim_wins, 4> {
    static constexpr std::uint64_t nobody = 9;
    bool gave_up = false;
    void thread(unsigned index) {
        if (index == 0) {
            const std::uint64_t epoch = begin();
            if (cell.requests() != 0) {
                gave_up = true;
                take_interrupt();
                return tell(nobody);
            }
            tell(epoch);
            suspend(epoch, true);
        } else if (index == 3) {
            request();
        } else if (const std::uint64_t epoch = told(); epoch != nobody) {
            claim(epoch, index == 1 ? wake_reason::notified : wake_reason::timed_out);
        }
    }
    void after() { RL_ASSERT(won[1] + (gave_up ? 1 : 0) == 1); }
};

// A request is seen by the owner, or it ends the wait: else the owner sleeps for ever, which relacy
// reports as a live-lock.  It is there after that, until the owner takes it away.
struct a_request_is_not_lost : owner_suite<a_request_is_not_lost, 2> {
    void thread(unsigned index) {
        if (index == 1) return request();
        const std::uint64_t epoch = begin();
        if (cell.requests() == 0) RL_ASSERT(suspend(epoch, true) == wake_reason::interrupted);
        RL_ASSERT(cell.requests() == 1);
        take_interrupt();
    }
};

// A wait that cannot be interrupted is not, and the request stays for the next that can.
struct a_request_waits_for_its_wait : owner_suite<a_request_waits_for_its_wait, 3> {
    void thread(unsigned index) {
        if (index == 1) return request();
        if (index == 2) return claim(told(), wake_reason::notified);
        std::uint64_t epoch = begin();
        tell(epoch);
        RL_ASSERT(suspend(epoch, false) == wake_reason::notified);
        epoch = begin();
        if (cell.requests() == 0) RL_ASSERT(suspend(epoch, true) == wake_reason::interrupted);
        take_interrupt();
    }
};

// A second request, of another kind, is not lost when the first one is taken away.
struct requests_stand_side_by_side : owner_suite<requests_stand_side_by_side, 2> {
    void thread(unsigned index) {
        if (index == 1) {
            request();
            return request(2);
        }
        while ((cell.requests() & 1) == 0)
            rl::yield(1, $);
        cell.take_away(1);
        if (cell.requests() == 0) RL_ASSERT(suspend(begin(), true) == wake_reason::interrupted);
        RL_ASSERT(cell.requests() == 2);
    }
};

// A claim on a wait that is over does nothing to the next one.
struct a_stale_epoch_does_nothing : owner_suite<a_stale_epoch_does_nothing, 3> {
    void thread(unsigned index) {
        if (index == 0) {
            for (std::uint64_t round = 1; round <= 2; ++round) {
                const std::uint64_t epoch = begin();
                tell(epoch);
                const wake_reason why = suspend(epoch, round == 2);
                RL_ASSERT(round == 1 || why == wake_reason::notified);
            }
        } else if (index == 1) {
            const std::uint64_t epoch = told();
            claim(epoch, wake_reason::notified);
            if (epoch == 2) return;
            while (known.load(std::memory_order_acquire) == 1)
                rl::yield(1, $);
            message[0]($) = 42;
            note(cell.claim(2, wake_reason::notified), 2);
        } else {
            told();
            claim(1, wake_reason::timed_out);  // in time, or for a wait that is over
        }
    }
    void after() { RL_ASSERT(won[1] == 1 && won[2] == 1); }
};

// An owner that gives up by itself, after it has told others, claims as they do: one ends the wait.
struct the_owner_claims_too : owner_suite<the_owner_claims_too, 3> {
    void thread(unsigned index) {
        if (index > 0) {
            return claim(told(), index == 1 ? wake_reason::notified : wake_reason::timed_out);
        }
        const std::uint64_t epoch = begin();
        tell(epoch);
        const claim_result result = cell.claim(epoch, wake_reason::interrupted);
        RL_ASSERT(result != claim_result::ready);
        if (result == claim_result::lost) {
            finish();
        } else {
            ++won[epoch];
        }
    }
    void after() { RL_ASSERT(won[1] == 1 && made_ready == 0); }
};

}  // namespace

int main() {
    const bool ok = explore<a_request_is_not_lost>(every, 0) &&
                    explore<requests_stand_side_by_side>(random_ones, 50'000) &&
                    explore<one_claim_wins>(random_ones, 200'000) &&
                    explore<a_request_waits_for_its_wait>(random_ones, 50'000) &&
                    explore<a_stale_epoch_does_nothing>(random_ones, 50'000) &&
                    explore<the_owner_claims_too>(random_ones, 50'000);
    return ok ? 0 : 1;
}
