// verge/io/detail/operation.hpp -- a unit of work for a loop: intrusive, 16 bytes, no vtable.
//
// An operation owns itself: complete() and destroy() both free its memory, before they call the
// user's function.  So a handler that begins the next operation can reuse that memory.

#pragma once

#include <verge/io/detail/handler_tracking.hpp>

#include <utility>

namespace verge::detail::io {

/// What an executor did with an operation that it was asked to complete: the caller completes it
/// here, the executor completes it later, or the executor cannot take operations.
enum class handed { here, later, no };

/// One function pointer, and the link of the queue it is in.
template <bool Tracked>
class basic_operation : public tracked_handler<Tracked> {
public:
    /// `owner` is the loop that runs it, or nullptr to destroy it without a call.
    using function = void (*)(void* owner, basic_operation* self);

    void complete(void* owner) { function_(owner, this); }
    void destroy() { function_(nullptr, this); }

protected:
    explicit basic_operation(function f) noexcept : function_(f) {}
    ~basic_operation() = default;
    basic_operation(const basic_operation&) = delete;
    basic_operation& operator=(const basic_operation&) = delete;
    /// Replaces the function that completes and destroys it.
    void complete_by(function f) noexcept { function_ = f; }
    /// Moves it to the executor `home`, which allocates nothing for it; `there` completes it.
    /// False if `home` cannot take it; otherwise the operation may be destroyed already.
    template <class Home>
    [[nodiscard]] bool complete_at(const Home& home, function there, void* owner) {
        complete_by(there);
        const handed what = home.hand_over(this);
        if (what == handed::here) there(owner, this);
        return what != handed::no;
    }

private:
    template <class>
    friend class basic_op_queue;
    template <class>
    friend class op_ring;
    friend class wait_operation;
    friend class op_inbox;
    basic_operation* next_ = nullptr;
    function function_;
};

using operation = basic_operation<tracks_handlers>;

/// An executor with `handed hand_over(operation*) const`, which allocates nothing.  It throws only
/// what a function throws that runs inside the call.
template <class Executor>
concept takes_operations = requires(const Executor& ex, operation* op) {
    ex.hand_over(op);
};

static_assert(tracks_handlers || sizeof(operation) == 2 * sizeof(void*));

/// A queue of operations.  Its destructor destroys those that are left.
template <class Operation>
class basic_op_queue {
public:
    basic_op_queue() noexcept = default;
    basic_op_queue(basic_op_queue&& other) noexcept
        : first_(std::exchange(other.first_, nullptr)),
          last_(std::exchange(other.last_, nullptr)) {}
    basic_op_queue& operator=(basic_op_queue&&) = delete;
    basic_op_queue(const basic_op_queue&) = delete;
    basic_op_queue& operator=(const basic_op_queue&) = delete;
    ~basic_op_queue() {
        while (Operation* const op = pop())
            op->destroy();
    }

    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] Operation* front() const noexcept { return first_; }
    [[nodiscard]] static Operation* after(Operation* op) noexcept {
        return static_cast<Operation*>(op->next_);
    }

    void push(Operation* op) noexcept {
        op->next_ = nullptr;
        if (first_ == nullptr) {
            first_ = op;
        } else {
            last_->next_ = op;
        }
        last_ = op;
    }

    /// The first, or nullptr.
    Operation* pop() noexcept {
        Operation* const op = first_;
        if (op != nullptr) first_ = static_cast<Operation*>(op->next_);
        return op;
    }

    /// Removes one, in linear time.  False if it is not here.
    bool remove(Operation* op) noexcept {
        Operation* before = nullptr;
        for (Operation* at = first_; at != nullptr; before = at, at = after(at)) {
            if (at != op) continue;
            if (before == nullptr) {
                first_ = after(op);
            } else {
                before->next_ = after(op);
            }
            if (last_ == op) last_ = before;
            return true;
        }
        return false;
    }

    /// Moves all of `other` to the end.
    template <class Other>
    void append(basic_op_queue<Other>& other) noexcept {
        if (other.first_ == nullptr) return;
        if (first_ == nullptr) {
            first_ = other.first_;
        } else {
            last_->next_ = other.first_;
        }
        last_ = other.last_;
        other.first_ = nullptr;
        other.last_ = nullptr;
    }
    /// The same for a chain; an empty one if `first` is nullptr.
    void append(Operation* first, Operation* last) noexcept {
        if (first == nullptr) return;
        if (first_ == nullptr) {
            first_ = first;
        } else {
            last_->next_ = first;
        }
        last_ = last;
    }

private:
    template <class>
    friend class basic_op_queue;
    Operation* first_ = nullptr;
    Operation* last_ = nullptr;
};

using op_queue = basic_op_queue<operation>;

/// A queue of operations in 8 bytes: a ring, whose last element links to the first.  Does not own
/// them.
template <class Operation>
class op_ring {
public:
    [[nodiscard]] bool empty() const noexcept { return last_ == nullptr; }

    void push(Operation* op) noexcept {
        if (last_ == nullptr) {
            op->next_ = op;
        } else {
            op->next_ = last_->next_;
            last_->next_ = op;
        }
        last_ = op;
    }

    /// The first, or nullptr.
    Operation* pop() noexcept {
        if (last_ == nullptr) return nullptr;
        auto* const first = static_cast<Operation*>(last_->next_);
        if (first == last_) {
            last_ = nullptr;
        } else {
            last_->next_ = first->next_;
        }
        return first;
    }

    bool remove(Operation* op) noexcept {
        if (last_ == nullptr) return false;
        operation* before = last_;
        do {
            if (before->next_ == op) {
                before->next_ = op->next_;
                if (before == op) {
                    last_ = nullptr;
                } else if (last_ == op) {
                    last_ = static_cast<Operation*>(before);
                }
                return true;
            }
            before = before->next_;
        } while (before != last_);
        return false;
    }

    template <class F>
    void for_each(F&& f) {
        if (last_ == nullptr) return;
        operation* at = last_;
        do {
            at = at->next_;
            f(*static_cast<Operation*>(at));
        } while (at != last_);
    }

private:
    Operation* last_ = nullptr;
};

}  // namespace verge::detail::io
