// verge/io/detail/wait_operation.hpp -- a pending wait: 16 bytes and the handler.
//
// A wait that has expired and one that was cancelled differ only in the function that completes
// them, so no state is stored.  Everything else that the library passes to a wait goes through the
// same function, as a message: a pointer whose lowest bit is set.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/cancellation.hpp>
#include <verge/io/detail/bound_handler.hpp>
#include <verge/io/detail/operation.hpp>
#include <verge/io/detail/thread_cache.hpp>
#include <verge/io/error.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace verge::detail::io {

/// A wait of a timer, without the type of its handler.
class wait_operation : public operation {
public:
    /// Makes it complete with operation_aborted.
    void abort() { send({message::aborted, nullptr}); }
    /// Sets the timer that holds a wait with a cancellation slot; nullptr: the wait has ended.
    void set_owner(void* timer) { send({message::has_owner, timer}); }

protected:
    struct message {
        enum { aborted, has_owner } kind;
        void* value;
    };
    using operation::operation;
    ~wait_operation() = default;

    static const message* message_in(void* owner) noexcept {
        const auto bits = reinterpret_cast<std::uintptr_t>(owner);
        return (bits & 1) != 0 ? reinterpret_cast<const message*>(bits - 1) : nullptr;
    }

private:
    void send(const message& m) {
        function_(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&m) | 1), this);
    }
};

using wait_ring = op_ring<wait_operation>;

/// Where a wait that has a cancellation slot is.  Shared by the wait and by the handler in the
/// slot, since either may be destroyed first.
class wait_place {
public:
    explicit wait_place(wait_operation* op) noexcept : op_(op) {}
    void set(void* timer) noexcept {
        // release: pairs with the acquire in timer(); the timer is constructed.
        timer_.store(timer, std::memory_order_release);
    }
    /// The timer that holds the wait; nullptr if the wait has ended.  The user orders this call and
    /// the timer's destruction.
    [[nodiscard]] void* timer() const noexcept {
        // acquire: pairs with the release in set().
        return timer_.load(std::memory_order_acquire);
    }
    [[nodiscard]] wait_operation* op() const noexcept { return op_; }

private:
    std::atomic<void*> timer_{nullptr};  // written under the timer's lock
    wait_operation* const op_;
};
class wait_owner {
public:
    void set(void* timer) noexcept {
        if (place_ != nullptr) place_->set(timer);
    }
    /// Throws std::bad_alloc.
    const std::shared_ptr<wait_place>& make(wait_operation* op) {
        return place_ = std::make_shared<wait_place>(op);
    }

private:
    std::shared_ptr<wait_place> place_;  // nullptr: no slot is connected
};
struct no_wait_owner {
    void set(void*) noexcept {}
};

/// A wait with its handler.  `Home` is how that is called: in place, or through an executor.
template <class Handler, class Home>
class wait_with_handler final : public wait_operation {
    using allocator = associated_allocator_t<Handler>;
    using memory = op_memory<wait_with_handler, allocator>;

public:
    static constexpr bool has_slot = may_have_slot<Handler>;

    template <class H, class... Args>
    [[nodiscard]] static wait_with_handler* create(H& handler, const Args&... args) {
        return memory::create(verge::get_associated_allocator(handler), handler, args...);
    }
    template <class H, class... Args>
    explicit wait_with_handler(H& handler, const Args&... args)
        : wait_operation(&run<false>), home_(handler, args...), handler_(std::move(handler)) {}

    [[nodiscard]] const Handler& handler() const noexcept { return handler_; }
    [[nodiscard]] auto& owner() noexcept { return owner_; }

private:
    template <bool Aborted>
    static void run(void* owner, operation* base) {
        auto* const self = static_cast<wait_with_handler*>(base);
        if (const message* const m = message_in(owner)) {
            if (m->kind == message::aborted) {
                self->complete_by(&run<true>);
            } else {
                self->owner_.set(m->value);
            }
            return;
        }
        if constexpr (requires { self->home_.hand_over(self); }) {
            if (owner != nullptr && self->complete_at(self->home_, &finish<Aborted, true>, owner))
                return;
        }
        finish<Aborted, false>(owner, self);
    }

    template <bool Aborted, bool AtHome>
    static void finish(void* owner, operation* base) {
        auto* const self = static_cast<wait_with_handler*>(base);
        const allocator own_allocator = verge::get_associated_allocator(self->handler_);
        tracked_call tracked(*self);
        Home home(std::move(self->home_));
        Handler handler(std::move(self->handler_));
        memory::destroy(own_allocator, self);  // before the call, which may reuse the memory
        if (owner == nullptr) return;
        const std::error_code error =
            Aborted ? std::error_code(error::operation_aborted) : std::error_code();
        tracked.begin(error);
        if constexpr (AtHome) {
            std::move(handler)(error);
        } else {
            home.call(handler, error);
        }
        tracked.end();
    }

    [[no_unique_address]] std::conditional_t<has_slot, wait_owner, no_wait_owner> owner_;
    [[no_unique_address]] Home home_;
    Handler handler_;
};

/// The handler has no executor of its own, and the loop runs it: it is called in place.
struct call_in_place {
    template <class Handler>
    explicit call_in_place(const Handler&) noexcept {}
    template <class Handler>
    void call(Handler& handler, std::error_code error) {
        // Only here: an executor may call the handler on a thread that does not own the slot.
        // A handler that stays in the slot is harmless: its wait_place has no timer.
        if constexpr (may_have_slot<Handler>) {
            verge::get_associated_cancellation_slot(handler).clear();
        }
        std::move(handler)(error);
    }
};

/// The handler is called through an executor, which has outstanding work until then.
template <class Executor>
class call_through {
    using tracked = std::decay_t<decltype(verge::prefer(std::declval<const Executor&>(),
                                                        execution::outstanding_work.tracked))>;

public:
    template <class Handler, class IoExecutor>
    call_through(const Handler& handler, const IoExecutor& io)
        : work_(verge::prefer(verge::get_associated_executor(handler, io),
                              execution::outstanding_work.tracked)) {}
    template <class Handler>
    void call(Handler& handler, std::error_code error) {
        auto allocator = verge::get_associated_allocator(handler);
        verge::prefer(work_, execution::allocator(allocator))
            .execute(bound_handler<Handler, std::error_code>(std::move(handler), error));
    }
    [[nodiscard]] handed hand_over(operation* op) const requires takes_operations<tracked> {
        return work_.hand_over(op);
    }

private:
    tracked work_;
};

}  // namespace verge::detail::io
