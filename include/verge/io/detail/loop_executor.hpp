// verge/io/detail/loop_executor.hpp -- the executor of io_context and of thread_pool.
//
// 8 bytes: the context's address with two properties in its low bits.  Whether it tracks work is
// part of its type, so that copies of an executor that does not cost nothing.

#pragma once

#include <verge/io/detail/function_operation.hpp>
#include <verge/io/detail/loop_core.hpp>
#include <verge/io/execution.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace verge::detail::io {

template <class Context, class Allocator, bool Tracked>
class loop_executor {
    static constexpr std::uintptr_t never_bit = 1;
    static constexpr std::uintptr_t continuation_bit = 2;
    static constexpr std::uintptr_t all_bits = 3;
    template <class, class, bool>
    friend class loop_executor;
    template <class A, bool T>
    using like = loop_executor<Context, A, T>;

public:
    explicit loop_executor(Context& context) noexcept
        : bits_(reinterpret_cast<std::uintptr_t>(&context)) {
        start();
    }
    loop_executor(const loop_executor& other) noexcept
        : allocator_(other.allocator_), bits_(other.bits_) {
        start();
    }
    // g++ 12 warns about an empty optional executor, although it is only moved if there is one.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
    loop_executor(loop_executor&& other) noexcept
        : allocator_(std::move(other.allocator_)), bits_(other.bits_) {
        if constexpr (Tracked) other.bits_ = 0;
    }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
    loop_executor& operator=(const loop_executor& other) noexcept {
        loop_executor copy(other);
        swap(copy);
        return *this;
    }
    loop_executor& operator=(loop_executor&& other) noexcept {
        swap(other);
        return *this;
    }
    ~loop_executor() {
        finish();
    }

    // ---- properties -----------------------------------------------------------------------------

    [[nodiscard]] auto require(execution::blocking_t::possibly_t) const noexcept {
        return with_bits<Tracked>(bits_ & ~never_bit);
    }
    [[nodiscard]] auto require(execution::blocking_t::never_t) const noexcept {
        return with_bits<Tracked>(bits_ | never_bit);
    }
    [[nodiscard]] auto require(execution::relationship_t::fork_t) const noexcept {
        return with_bits<Tracked>(bits_ & ~continuation_bit);
    }
    [[nodiscard]] auto require(execution::relationship_t::continuation_t) const noexcept {
        return with_bits<Tracked>(bits_ | continuation_bit);
    }
    [[nodiscard]] auto require(execution::outstanding_work_t::tracked_t) const noexcept {
        return with_bits<true>(bits_);
    }
    [[nodiscard]] auto require(execution::outstanding_work_t::untracked_t) const noexcept {
        return with_bits<false>(bits_);
    }
    template <class Other>
    [[nodiscard]] auto require(const execution::allocator_t<Other>& a) const noexcept {
        if constexpr (std::is_void_v<Other>) {
            return like<std::allocator<void>, Tracked>(bits_, std::allocator<void>());
        } else {
            return like<Other, Tracked>(bits_, a.value());
        }
    }

    [[nodiscard]] Context& query(execution::context_t) const noexcept {
        return context();
    }
    [[nodiscard]] execution::blocking_t query(execution::blocking_t) const noexcept {
        return (bits_ & never_bit) != 0 ? execution::blocking_t(execution::blocking.never)
                                        : execution::blocking_t(execution::blocking.possibly);
    }
    [[nodiscard]] execution::relationship_t query(execution::relationship_t) const noexcept {
        return (bits_ & continuation_bit) != 0
                   ? execution::relationship_t(execution::relationship.continuation)
                   : execution::relationship_t(execution::relationship.fork);
    }
    [[nodiscard]] execution::outstanding_work_t query(
        execution::outstanding_work_t) const noexcept {
        return execution::outstanding_work_t(Tracked ? 1 : 0);
    }
    [[nodiscard]] execution::mapping_t query(execution::mapping_t) const noexcept {
        return execution::mapping.thread;
    }
    template <class Other>
    [[nodiscard]] Allocator query(const execution::allocator_t<Other>&) const noexcept {
        return allocator_;
    }

    // ---- work -----------------------------------------------------------------------------------

    /// Runs `f`: in this call if this thread runs the context and blocking is `possibly`.
    template <class F>
    void execute(F&& f) const {
        if ((bits_ & never_bit) == 0 && running_in_this_thread()) {
            std::decay_t<F> own(std::forward<F>(f));
            own();
            return;
        }
        post_it(std::forward<F>(f), allocator_, (bits_ & continuation_bit) != 0, "execute");
    }

    [[nodiscard]] bool running_in_this_thread() const noexcept {
        return loop().running_in_this_thread();
    }

    // ---- Asio's older form of an executor -------------------------------------------------------

    [[nodiscard]] Context& context() const noexcept {
        return *reinterpret_cast<Context*>(bits_ & ~all_bits);
    }
    void on_work_started() const noexcept {
        loop().work_started();
    }
    void on_work_finished() const noexcept {
        loop().work_finished();
    }
    template <class F, class A = std::allocator<void>>
    void dispatch(F&& f, const A& a = {}) const {
        if (running_in_this_thread()) {
            std::decay_t<F> own(std::forward<F>(f));
            own();
            return;
        }
        post_it(std::forward<F>(f), a, false, "dispatch");
    }
    template <class F, class A = std::allocator<void>>
    void post(F&& f, const A& a = {}) const {
        post_it(std::forward<F>(f), a, false, "post");
    }
    template <class F, class A = std::allocator<void>>
    void defer(F&& f, const A& a = {}) const {
        post_it(std::forward<F>(f), a, true, "defer");
    }

    friend bool operator==(const loop_executor& a, const loop_executor& b) noexcept {
        return a.bits_ == b.bits_ && a.allocator_ == b.allocator_;
    }

    /// For the library: completes an operation, as execute() calls a function.
    [[nodiscard]] handed hand_over(operation* op) const noexcept {
        if ((bits_ & never_bit) == 0 && running_in_this_thread()) return handed::here;
        loop().expect_post();
        loop().post(op, (bits_ & continuation_bit) != 0);
        return handed::later;
    }
    /// For the library: the loop of the context.
    [[nodiscard]] loop_core& loop() const noexcept {
        return context().loop();
    }

private:
    loop_executor(std::uintptr_t bits, const Allocator& allocator) noexcept
        : allocator_(allocator), bits_(bits) {
        start();
    }
    template <bool OtherTracked>
    [[nodiscard]] like<Allocator, OtherTracked> with_bits(std::uintptr_t bits) const noexcept {
        return like<Allocator, OtherTracked>(bits, allocator_);
    }
    void swap(loop_executor& other) noexcept {
        std::swap(allocator_, other.allocator_);
        std::swap(bits_, other.bits_);
    }
    template <class F, class A>
    void post_it(F&& f, const A& a, bool is_continuation, const char* as) const {
        const handler_origin from{Context::tracking_name, &context(), as};
        loop().expect_post();
        loop().post(make_function_operation(std::forward<F>(f), a, from), is_continuation);
    }
    void start() const noexcept {
        if constexpr (Tracked) {
            if (bits_ != 0) loop().work_started();
        }
    }
    void finish() const noexcept {
        if constexpr (Tracked) {
            if (bits_ != 0) loop().work_finished();
        }
    }

    [[no_unique_address]] Allocator allocator_;
    std::uintptr_t bits_;
};

}  // namespace verge::detail::io
