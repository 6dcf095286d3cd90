// verge/base/callback.hpp -- a move-only `void()` callable that rarely allocates.
//
//     verge::callback work = [p = std::make_unique<job>()] { p->run(); };
//     queue.push(std::move(work));
//
// A timer keeps one until its deadline.  56 bytes: 48 for the callable, and a pointer to its table
// of operations.  It is not copyable, takes no argument, returns nothing, and has no target():
// std::function has that.
//
// The callable is stored inside if it fits<F>: at most 48 bytes, aligned to at most 8, and nothrow
// move constructible; otherwise on the heap, at the cost of one allocation.  A move of a trivially
// copyable callable, or of one on the heap, copies at most 48 bytes and calls no function.
//
// Guarantees, under the names of the tests that hold them
//   ConstructsMovesAndDestroysInBalance   each callable made is destroyed once, also on exceptions.
//   AThrowingConstructionLeaksNothing     and leaves no callback behind.
//   ADestructorMayUseTheOwner             reset() and assignment destroy the old callable last: by
//                                         then the callback is empty, or has its new value.
//   AnEmptySourceMakesAnEmptyCallback     a null function pointer, an empty std::function.
//
// Thread safety: as an int: concurrent calls of const members are safe, all others need a lock.
// Exceptions: construction may throw std::bad_alloc (if it does not fit) and what the callable's
// copy or move throws.  A call throws what the callable throws.  Nothing else throws.

#pragma once

#include <verge/base/detail/assert.hpp>

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail {

template <class F>
concept compares_with_null = requires(const F& f) {
    { f == nullptr } -> std::convertible_to<bool>;
};

template <class F>
concept has_unary_plus = requires(const F& f) {
    +f;
};

// Pointers, std::function and the like.  Not a function, nor a lambda that converts to a pointer
// to one (+f): these are never null, and compilers warn about the comparison.
template <class F>
concept may_be_null = (compares_with_null<F> && !has_unary_plus<F>) || std::is_pointer_v<F>;

}  // namespace detail

class callback {
    // The operations on a stored callable.  One static table per type.
    struct operations {
        void (*call)(void* storage);
        void (*relocate)(void* from, void* to) noexcept;  // null: copy the bytes
        void (*destroy)(void* storage) noexcept;          // null: nothing to do
        bool is_small;                                    // and moved by copying its bytes
    };

    static constexpr std::size_t capacity = 48;
    static constexpr std::size_t small = 16;  // a pointer or two, as most are
    static constexpr std::size_t alignment = 8;

public:
    /// Whether a callable of this type is stored without an allocation.
    template <class F, class Target = std::decay_t<F>>
    static constexpr bool fits =
        (sizeof(Target) <= capacity) &&
        (alignof(Target) <= alignment) && std::is_nothrow_move_constructible_v<Target>;

    /// An empty callback.
    callback() noexcept = default;

    /// Holds `f`, which must be callable as an lvalue, any number of times; its result is ignored.
    /// Empty if `f` is a null pointer or an empty std::function.
    template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, callback> && std::invocable<std::decay_t<F>&> &&
             std::constructible_from<std::decay_t<F>, F>)
        callback(F&& f) {  // NOLINT: implicit, so that a lambda is passed as it is; constrained
        using target = std::decay_t<F>;
        if constexpr (detail::may_be_null<std::remove_cvref_t<F>>) {
            if (f == nullptr) return;
        }
        if constexpr (fits<target>) {
            ::new (static_cast<void*>(storage_)) target(std::forward<F>(f));
            operations_ = &inside<target>;
        } else {
            ::new (static_cast<void*>(storage_)) target*(new target(std::forward<F>(f)));
            operations_ = &outside<target>;
        }
    }

    callback(callback&& other) noexcept : operations_(std::exchange(other.operations_, nullptr)) {
        take_callable(other);
    }

    /// The old callable is destroyed last.  Assignment to itself does nothing.
    callback& operator=(callback&& other) noexcept {
        if (this != &other) {
            const callback old(std::move(*this));
            take(other);
        }
        return *this;
    }

    callback(const callback&) = delete;
    callback& operator=(const callback&) = delete;

    ~callback() { destroy(); }

    /// Calls it.  It must not be empty (VERGE_ASSERT), and must not be moved, reset or destroyed
    /// until the call returns: an owner that cannot promise that moves it out first.
    void operator()() {
        VERGE_ASSERT(operations_ != nullptr, "an empty verge::callback is called");
        operations_->call(storage_);
    }

    /// Whether it holds a callable.
    [[nodiscard]] explicit operator bool() const noexcept { return operations_ != nullptr; }

    /// Whether the destructor has nothing to do: it is empty, or holds a trivially destructible
    /// callable.
    [[nodiscard]] bool has_trivial_destroy() const noexcept {
        return operations_ == nullptr || operations_->destroy == nullptr;
    }

    /// Whether a move runs no code of the callable: its bytes, or a pointer to it, are copied.
    [[nodiscard]] bool has_trivial_move() const noexcept {
        return operations_ == nullptr || operations_->is_small || operations_->relocate == nullptr;
    }

    /// Makes it empty, then destroys what it held.
    void reset() noexcept { const callback old(std::move(*this)); }

    friend void swap(callback& a, callback& b) noexcept {
        callback other;
        other.take(a);
        a.take(b);
        b.take(other);
    }

private:
    template <class F>
    static F* stored(void* storage) noexcept {
        return std::launder(static_cast<F*>(storage));
    }

    template <class F>
    static void call_inside(void* storage) {
        static_cast<void>((*stored<F>(storage))());
    }
    template <class F>
    static void relocate_inside(void* from, void* to) noexcept {
        ::new (to) F(std::move(*stored<F>(from)));
        std::destroy_at(stored<F>(from));
    }
    template <class F>
    static void destroy_inside(void* storage) noexcept {
        std::destroy_at(stored<F>(storage));
    }
    template <class F>
    static constexpr operations inside{
        &call_inside<F>, std::is_trivially_copyable_v<F> ? nullptr : &relocate_inside<F>,
        std::is_trivially_destructible_v<F> ? nullptr : &destroy_inside<F>,
        (sizeof(F) <= small) && std::is_trivially_copyable_v<F>};

    template <class F>
    static void call_outside(void* storage) {
        static_cast<void>((**stored<F*>(storage))());
    }
    template <class F>
    static void destroy_outside(void* storage) noexcept {
        delete *stored<F*>(storage);
    }
    template <class F>
    static constexpr operations outside{&call_outside<F>, nullptr, &destroy_outside<F>, true};

    // A callable smaller than the storage leaves the rest uninitialized; copying that is harmless.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
    // Moves what `other` holds into this one, which is empty.
    void take(callback& other) noexcept {
        operations_ = std::exchange(other.operations_, nullptr);
        take_callable(other);
    }
    // The second half of a move.  Precondition: operations_ already holds the other's.
    void take_callable(callback& other) noexcept {
        if (operations_ == nullptr) return;
        if (operations_->is_small) [[likely]] {
            std::memcpy(storage_, other.storage_, small);
        } else if (operations_->relocate == nullptr) {
            std::memcpy(storage_, other.storage_, capacity);
        } else {
            operations_->relocate(other.storage_, storage_);
        }
    }

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

    void destroy() noexcept {
        if (operations_ != nullptr && operations_->destroy != nullptr) {
            std::exchange(operations_, nullptr)->destroy(storage_);
        }
    }

    alignas(alignment) std::byte storage_[capacity];
    const operations* operations_ = nullptr;
};

static_assert(sizeof(callback) == 56);

}  // namespace verge
