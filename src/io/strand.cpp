#include <verge/io/strand.hpp>

#include <utility>

namespace verge::detail {

namespace {

struct strand_frame;
constinit thread_local const strand_frame* innermost_strand = nullptr;

// On the stack of a thread that has a turn of a strand.
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
    // Destructors may add more: that is idle then, and asks for a runner of its own.
    op_queue doomed;
    const lock_scope hold(lock_);
    busy_ = false;
    doomed.append(turn_);
    doomed.append(waiting_);
}

bool strand_state::running_in_this_thread() const noexcept {
    for (const strand_frame* f = innermost_strand; f != nullptr; f = f->outer) {
        if (f->state == this) return true;
    }
    return false;
}

}  // namespace verge::detail
