// src/io/strand.cpp -- the queue and the turns of a strand.

#include <verge/io/strand.hpp>

#include <utility>

namespace verge::detail::io {

namespace {

struct strand_frame;
constinit thread_local const strand_frame* innermost_strand = nullptr;

// On the stack of a thread that runs a turn; nested turns form a list.
struct strand_frame {
    explicit strand_frame(const strand_state* s) noexcept : state(s), outer(innermost_strand) {
        innermost_strand = this;
    }
    ~strand_frame() { innermost_strand = outer; }
    strand_frame(const strand_frame&) = delete;
    strand_frame& operator=(const strand_frame&) = delete;
    const strand_state* state;
    const strand_frame* outer;
};

}  // namespace

bool strand_state::add(operation* op) noexcept {
    const lock_scope hold(lock_);
    waiting_.push(op);
    return !std::exchange(busy_, true);
}

void strand_state::run_turn() {
    const strand_frame inside(this);
    {
        const lock_scope hold(lock_);
        asking_ = 0;  // the executor has accepted the request, since the turn runs
        turn_.append(waiting_);
    }
    while (operation* const op = turn_.pop())
        op->complete(this);
}

bool strand_state::end_turn() noexcept {
    const lock_scope hold(lock_);
    busy_ = !turn_.empty() || !waiting_.empty();
    return busy_;
}

void strand_state::drop() noexcept {
    // `doomed` is destroyed last, without the lock: its destructors may add to the strand, which is
    // idle by then, and request a new turn.
    op_queue doomed;
    const lock_scope hold(lock_);
    busy_ = false;
    doomed.append(turn_);
    doomed.append(waiting_);
}

std::uint64_t strand_state::begin_asking() noexcept {
    const lock_scope hold(lock_);
    destroyed_ = false;
    return asking_ = ++questions_;
}

void strand_state::taken(std::uint64_t question) noexcept {
    {
        const lock_scope hold(lock_);
        if (asking_ != question) return;  // the turn has begun already
        asking_ = 0;
        if (!destroyed_) return;
    }
    drop();
}

void strand_state::refused(std::uint64_t question, operation* op) noexcept {
    {
        const lock_scope hold(lock_);
        if (asking_ != question) return;  // the turn ran, and a function in it threw
        asking_ = 0;
        if (!destroyed_) return;  // the executor threw, but has kept the turn
        busy_ = false;
        if (op != nullptr && !waiting_.remove(op)) op = nullptr;
    }
    if (op != nullptr) op->destroy();
}

void strand_state::turn_destroyed() noexcept {
    {
        const lock_scope hold(lock_);
        destroyed_ = true;
        if (asking_ != 0) return;
    }
    drop();
}

void strand_state::ask(const std::shared_ptr<strand_state>& self, const turn_loop& in) {
    if (in.may_block && in.loop->running_in_this_thread()) {
        take_turn(self, in);
    } else {
        ask_later(self, in);
    }
}

void strand_state::ask_later(const std::shared_ptr<strand_state>& self,
                             const turn_loop& in) noexcept {
    strand_state& state = *self;
    state.in_ = in;
    state.self_ = self;
    state.created(in.origin);
    in.loop->post(&state, in.is_continuation);
}

// Both are copies: the caller's strand may be destroyed by a function, and in_ belongs to the next
// turn as soon as this one has ended.  NOLINTNEXTLINE(performance-unnecessary-value-param)
void strand_state::take_turn(std::shared_ptr<strand_state> self, turn_loop in) {
    in.is_continuation = true;
    // A destructor, so that the next turn is requested also when a function throws.
    struct next_turn {
        next_turn(const std::shared_ptr<strand_state>& s, const turn_loop& l) : state(s), loop(l) {}
        next_turn(const next_turn&) = delete;
        next_turn& operator=(const next_turn&) = delete;
        ~next_turn() {
            if (state->end_turn()) ask_later(state, loop);
        }
        const std::shared_ptr<strand_state>& state;
        const turn_loop& loop;
    };
    const next_turn after(self, in);
    self->run_turn();
}

void strand_state::run(void* owner, operation* base) {
    auto* const state = static_cast<strand_state*>(base);
    const std::shared_ptr<strand_state> self = std::move(state->self_);
    tracked_call tracked(*state);
    if (owner == nullptr) return state->drop();
    tracked.begin();
    take_turn(self, state->in_);
    tracked.end();
}

bool strand_state::running_in_this_thread() const noexcept {
    for (const strand_frame* f = innermost_strand; f != nullptr; f = f->outer) {
        if (f->state == this) return true;
    }
    return false;
}

}  // namespace verge::detail::io
