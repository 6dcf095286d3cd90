// verge/io/strand.hpp -- an executor whose functions never run at the same time.
//
//     auto one_at_a_time = verge::make_strand(io);
//     verge::post(one_at_a_time, [&] { ++counter; });     // no lock, however many threads run io
//     timer.async_wait(verge::bind_executor(one_at_a_time, handler));
//
// It replaces a mutex around the state that handlers share: a handler that has to wait for its turn
// occupies no thread.  Copies of a strand are the same strand.  Functions posted by one thread run
// in that order.  Not needed in a loop that one thread runs: that is a strand already.
//
// How it works: a queue under a spin lock.  The thread that adds a function to an idle strand
// requests a turn from the inner executor.  A turn runs the functions that were queued when it
// began, then requests the next turn if there are more, so that a busy strand does not monopolise a
// thread.
//
// States of a strand, all changed under its lock:
//   idle        busy_ is false. Nothing is queued, unless an executor has refused a turn.
//   requested   busy_ is true, and the turn has not begun: the inner executor has it.
//   running     busy_ is true, and one thread runs turn_: what was queued when the turn began.
// Invariants
//   Only the thread that changes busy_ from false to true requests a turn: there is at most one.
//   Only the thread that runs, or destroys, the turn touches turn_: functions never overlap.
//   If functions are queued when a turn ends, busy_ stays true and the turn requests the next one.
// Between two turns the lock orders their threads: each function sees what the one before it wrote.
//
// A turn in an io_context or a thread_pool is an operation that is part of the strand: requesting
// it allocates nothing, and cannot fail.  Another executor is given a function, and may refuse it
// with an exception.  Then the strand is idle again, and what is queued stays queued until the next
// function is added.  If the request came from a thread that added a function to the idle strand,
// the exception reaches that thread, and its function was not added; if a turn requested the next
// one, the exception leaves that turn, as the exception of a function does.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/strand_test.cpp)
//   FunctionsNeverOverlap           over any number of threads; each sees what the last one wrote.
//   KeepsTheOrderOfPosts            of one thread.
//   DispatchInsideRunsAtOnce        and post inside does not.
//   AnExceptionDoesNotStopIt        it leaves run(), and the rest runs later.
//   ABusyStrandLetsOthersRun
//   ADestroyedContextDestroysWhatWaits
//   UsesTheHandlersAllocator        for queued functions; turns use the strand's own memory.
//   TakesItsNextTurn                also when memory is refused.
// and (tests/unit/io/strand_executor_test.cpp), of other executors
//   ARefusedFunctionWasNotPosted    WhatOthersHavePostedWaitsForTheNext
//   ARefusedNextTurnLeavesTheFunctionAndTheRestWaits      ADestroyedTurnDestroysWhatWaits
//
// Thread safety: a strand object as a pointer; execute, dispatch, post and defer from any thread.
//
// Exceptions: those of the inner executor; std::bad_alloc; what the function's move throws.

#pragma once

#include <verge/base/detail/spin_lock.hpp>
#include <verge/io/any_io_executor.hpp>
#include <verge/io/detail/function_operation.hpp>
#include <verge/io/detail/loop_executor.hpp>
#include <verge/io/detail/operation.hpp>
#include <verge/io/execution.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/post.hpp>
#include <verge/io/thread_pool.hpp>

#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

/// The loop that runs a strand's turns, and how a turn is requested; no loop for an executor of
/// another kind.
struct turn_loop {
    loop_core* loop = nullptr;
    bool may_block = false;
    bool is_continuation = false;
    handler_origin origin{};  // for handler tracking

    /// Of an executor: a loop's own, an any_io_executor that holds one, or one with a default
    /// token.
    template <class Context, class Allocator, bool Tracked>
    static turn_loop of(const loop_executor<Context, Allocator, Tracked>& ex) noexcept {
        return {
            &ex.loop(),
            ex.query(execution::blocking) == execution::blocking_t(execution::blocking.possibly),
            ex.query(execution::relationship) ==
                execution::relationship_t(execution::relationship.continuation),
            {Context::tracking_name, &ex.context(), "execute"}};
    }
    static turn_loop of(const any_io_executor& ex) noexcept {
        turn_loop found;
        found.look_for<io_context>(ex);
        found.look_for<thread_pool>(ex);
        return found;
    }
    template <class Inner, class Token>
    static turn_loop of(const executor_with_default<Inner, Token>& ex) noexcept {
        return of(static_cast<const Inner&>(ex));
    }
    template <class Other>
    static turn_loop of(const Other&) noexcept {
        return {};
    }

private:
    template <class Context>
    void look_for(const any_io_executor& ex) noexcept {
        using plain = typename Context::executor_type;
        using tracked = typename Context::template basic_executor_type<std::allocator<void>, true>;
        if (const auto* const held = ex.target<plain>()) *this = of(*held);
        if (const auto* const held = ex.target<tracked>()) *this = of(*held);
    }
};

/// What all copies of a strand share.  In a loop it is also the operation that runs the turn.
class strand_state : private operation {
public:
    strand_state() noexcept : operation(&run) {}

    /// Queues an operation.  True if the strand was idle: the caller must request a turn.
    [[nodiscard]] bool add(operation* op) noexcept;
    /// Runs what is queued now.
    void run_turn();
    /// Ends the turn.  True if operations are queued, or left over after an exception: another turn
    /// is needed.
    [[nodiscard]] bool end_turn() noexcept;
    /// Destroys what is queued, because its turn was destroyed.
    void drop() noexcept;

    // ---- turns of an executor that is not a loop ------------------------------------------------

    /// A turn is being requested from the executor.  Returns the number of the request.
    [[nodiscard]] std::uint64_t begin_asking() noexcept;
    /// The executor has accepted it.
    void taken(std::uint64_t question) noexcept;
    /// The executor has refused it: what is queued stays, except `op`, if that is not nullptr.
    void refused(std::uint64_t question, operation* op) noexcept;
    /// The turn was destroyed without running: as drop(); but during a request, taken() or
    /// refused() decides what that means.
    void turn_destroyed() noexcept;

    /// Whether the calling thread is in a turn of this strand.
    [[nodiscard]] bool running_in_this_thread() const noexcept;

    // ---- turns in a loop ------------------------------------------------------------------------

    /// Requests a turn; runs it in this call if `in` may block and this thread runs the loop.
    static void ask(const std::shared_ptr<strand_state>& self, const turn_loop& in);

private:
    // The operation's function: runs a turn, or drops what is queued if `owner` is nullptr.
    static void run(void* owner, operation* base);
    static void take_turn(std::shared_ptr<strand_state> self, turn_loop in);
    static void ask_later(const std::shared_ptr<strand_state>& self, const turn_loop& in) noexcept;

    spin_lock lock_;
    bool busy_ VERGE_GUARDED_BY(lock_) = false;  // a turn has begun, or was requested
    op_queue waiting_ VERGE_GUARDED_BY(lock_);
    std::uint64_t questions_ VERGE_GUARDED_BY(lock_) = 0;  // how many requests were made
    std::uint64_t asking_ VERGE_GUARDED_BY(lock_) = 0;     // the one in progress; 0: none
    bool destroyed_ VERGE_GUARDED_BY(lock_) = false;       // its turn was destroyed
    op_queue turn_;  // written by the thread that has the turn, as are the two below
    turn_loop in_;   // where the turn was requested
    std::shared_ptr<strand_state> self_;  // until the turn begins
};

/// One turn of a strand, as a function for an executor that is not a loop.
template <class Executor>
class strand_runner {
public:
    strand_runner(std::shared_ptr<strand_state> state, const Executor& ex) noexcept
        : state_(std::move(state)), ex_(ex) {}
    strand_runner(strand_runner&& other) noexcept = default;
    strand_runner& operator=(strand_runner&&) = delete;
    strand_runner(const strand_runner&) = delete;
    strand_runner& operator=(const strand_runner&) = delete;
    ~strand_runner() {
        if (state_ != nullptr) state_->turn_destroyed();
    }

    /// Requests a turn through `via`; the next ones go through `ex`.  If it throws, `op`, which the
    /// caller has added, is destroyed.
    template <class Via>
    static void ask(const std::shared_ptr<strand_state>& state, const Via& via, const Executor& ex,
                    operation* op) {
        const std::shared_ptr<strand_state> own = state;  // execute() may destroy the caller's
        const std::uint64_t question = own->begin_asking();
        try {
            via.execute(strand_runner(own, ex));
        } catch (...) {
            own->refused(question, op);
            throw;
        }
        own->taken(question);
    }

    /// Runs the turn, and requests the next one, also after an exception.
    void operator()() {
        const std::shared_ptr<strand_state> state = std::move(state_);
        try {
            state->run_turn();
        } catch (...) {
            try {
                ask_for_next(state);
            } catch (...) {  // the first exception is reported; what is queued stays
            }
            throw;
        }
        ask_for_next(state);
    }

private:
    void ask_for_next(const std::shared_ptr<strand_state>& state) {
        if (!state->end_turn()) return;
        ask(state,
            verge::prefer(verge::prefer(ex_, execution::blocking.never),
                          execution::relationship.continuation),
            ex_, nullptr);
    }

    std::shared_ptr<strand_state> state_;  // nullptr: it has run
    Executor ex_;
};

}  // namespace detail::io

/// An executor that runs functions on `Executor`, one at a time.  Equal strands are copies of one.
template <class Executor>
class strand {
public:
    using inner_executor_type = Executor;

    /// A new strand, on a default executor or on `ex`.  Throws std::bad_alloc.
    strand() requires std::is_default_constructible_v<Executor>
        : state_(std::make_shared<detail::io::strand_state>()) {}
    explicit strand(const Executor& ex)
        : state_(std::make_shared<detail::io::strand_state>()), ex_(ex) {}
    // NOLINTBEGIN(google-explicit-constructor): implicit, as in Asio
    template <class Other>
    requires std::is_convertible_v<const Other&, Executor> strand(const strand<Other>& other)
        : state_(other.state_), ex_(other.ex_) {}
    // NOLINTEND(google-explicit-constructor)

    /// The executor that runs the turns.
    [[nodiscard]] inner_executor_type get_inner_executor() const noexcept { return ex_; }
    /// Whether the calling function runs in this strand.
    [[nodiscard]] bool running_in_this_thread() const noexcept {
        return state_->running_in_this_thread();
    }

    /// Runs `f` when no other function of this strand runs.  Inside the strand it runs `f` in this
    /// call, unless the inner executor has blocking.never.
    template <class F>
    void execute(F&& f) const {
        if (may_block() && running_in_this_thread()) {
            std::decay_t<F> own(std::forward<F>(f));
            own();
            return;
        }
        add(std::forward<F>(f), ex_, allocator());
    }

    // ---- properties: those of the inner executor ------------------------------------------------

    /// The same strand with that property of the inner executor.
    template <class Property>
    requires can_require_v<Executor, Property>
    [[nodiscard]] auto require(const Property& p) const {
        using inner = std::decay_t<decltype(verge::require(ex_, p))>;
        return strand<inner>(state_, verge::require(ex_, p));
    }
    template <class Property>
    requires(detail::io::has_prefer<Executor, Property>)
        [[nodiscard]] auto prefer(const Property& p) const {
        using inner = std::decay_t<decltype(verge::prefer(ex_, p))>;
        return strand<inner>(state_, verge::prefer(ex_, p));
    }
    template <class Property>
    requires can_query_v<Executor, Property>
    [[nodiscard]] decltype(auto) query(const Property& p) const { return verge::query(ex_, p); }

    // ---- Asio's older form ----------------------------------------------------------------------

    [[nodiscard]] decltype(auto) context() const { return verge::query(ex_, execution::context); }
    /// dispatch is execute(); post and defer never run `f` inside the call.
    template <class F, class A = std::allocator<void>>
    void dispatch(F&& f, const A& = {}) const {
        execute(std::forward<F>(f));
    }
    template <class F, class A = std::allocator<void>>
    void post(F&& f, const A& a = {}) const {
        add(std::forward<F>(f), verge::prefer(ex_, execution::blocking.never), a);
    }
    template <class F, class A = std::allocator<void>>
    void defer(F&& f, const A& a = {}) const {
        add(std::forward<F>(f),
            verge::prefer(verge::prefer(ex_, execution::blocking.never),
                          execution::relationship.continuation),
            a);
    }
    /// Outstanding work of the inner executor, counted by the caller.
    void on_work_started() const noexcept { ex_.on_work_started(); }
    void on_work_finished() const noexcept { ex_.on_work_finished(); }

    /// Whether they are copies of one strand, whatever their properties.
    friend bool operator==(const strand& a, const strand& b) noexcept {
        return a.state_ == b.state_;
    }

    /// For the library: completes an operation, as execute() calls a function.  This strand may be
    /// destroyed by that.
    [[nodiscard]] detail::io::handed hand_over(detail::io::operation* op) const {
        if (may_block() && running_in_this_thread()) return detail::io::handed::here;
        const auto in = detail::io::turn_loop::of(ex_);
        if (in.loop == nullptr) return detail::io::handed::no;
        const std::shared_ptr<detail::io::strand_state> state = state_;
        if (state->add(op)) detail::io::strand_state::ask(state, in);
        return detail::io::handed::later;
    }

private:
    template <class>
    friend class strand;
    strand(std::shared_ptr<detail::io::strand_state> state, const Executor& ex) noexcept
        : state_(std::move(state)), ex_(ex) {}

    // Whether execute() may run a function in the call.
    [[nodiscard]] bool may_block() const {
        if constexpr (can_query_v<Executor, execution::blocking_t>) {
            return verge::query(ex_, execution::blocking) !=
                   execution::blocking_t(execution::blocking.never);
        } else {
            return true;
        }
    }

    // The allocator property of the inner executor: queued functions are allocated with it.
    [[nodiscard]] auto allocator() const {
        if constexpr (can_query_v<Executor, execution::allocator_t<void>>) {
            return verge::query(ex_, execution::allocator_t<void>());
        } else {
            return std::allocator<void>();
        }
    }

    template <class Ex>
    [[nodiscard]] static auto plain(const Ex& ex) {
        return verge::prefer(ex, execution::allocator(std::allocator<void>()));
    }

    // Queues `f`, and requests a turn through `via` if the strand was idle.
    template <class F, class Via, class Allocator>
    void add(F&& f, const Via& via, const Allocator& allocator) const {
        detail::io::operation* const op = detail::io::make_function_operation(
            std::forward<F>(f), allocator, {"strand_executor", state_.get(), "execute"});
        if (!state_->add(op)) return;
        if (const auto in = detail::io::turn_loop::of(via); in.loop != nullptr) {
            return detail::io::strand_state::ask(state_, in);
        }
        // The runner continues with the strand's own executor, not with `via`, and may outlive the
        // allocator of this function: so it uses the default one.
        const auto own = plain(ex_);
        detail::io::strand_runner<std::decay_t<decltype(own)>>::ask(state_, plain(via), own, op);
    }

    std::shared_ptr<detail::io::strand_state> state_;
    Executor ex_;
};

/// A new strand on an executor, or on the executor of a context.
template <class Executor>
requires execution::executor<Executor>
[[nodiscard]] auto make_strand(const Executor& ex) {
    return strand<Executor>(ex);
}
template <class Context>
requires(!execution::executor<Context> && requires(Context & c) { c.get_executor(); })
    [[nodiscard]] auto make_strand(Context& context) {
    return strand<typename Context::executor_type>(context.get_executor());
}

/// Asio's older strand, of an io_context.  New code uses verge::strand and bind_executor.
class io_context::strand : public verge::strand<io_context::executor_type> {
    using base = verge::strand<io_context::executor_type>;

public:
    explicit strand(io_context& context) : base(context.get_executor()) {}

    /// A function object that dispatches a copy of `f`, with its arguments, through this strand.
    template <class F>
    [[nodiscard]] auto wrap(F&& f) const {
        return [own = static_cast<const base&>(*this),
                fn = std::decay_t<F>(std::forward<F>(f))]<class... Args>(Args&&... args) mutable {
            own.execute([fn, tuple = std::tuple<std::decay_t<Args>...>(std::forward<Args>(
                                 args)...)]() mutable { std::apply(fn, std::move(tuple)); });
        };
    }
};

}  // namespace verge
