// verge/io/any_io_executor.hpp -- an executor of any type: the default of timers and sockets.
//
//     verge::any_io_executor ex = io.get_executor();
//     ex = verge::make_strand(io);
//
// It erases the executor's type, so that a timer or a socket has one type whatever runs its
// handlers.  It is 40 bytes: an executor of up to 32 bytes whose move does not throw is stored in
// place; a larger one is stored on the heap and shared by all copies.  execute() wraps the function
// in a verge::callback, which stores up to 48 bytes of it without an allocation of its own.
//
// Not for a hot path whose executor is known: io_context::executor_type makes no indirect call.
// Not for an executor that has no execution_context: the conversion needs
// query(execution::context).
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/executor_test.cpp)
//   AnyExecutorForwardsProperties    require, prefer and query reach the executor that it holds.
//   AnEmptyExecutorSaysSo            execute() and query() of an empty one throw bad_executor.
//   ComparesWhatItHolds              equal: the same type, and equal values of it.
//   HoldsLargeExecutorsOnTheHeap
//
// Thread safety: as an int: a const object may be used by several threads, a change needs exclusive
// access.  Whether execute() may be called concurrently is up to the executor that it holds.
//
// Exceptions: construction from a large executor throws std::bad_alloc; copies and moves do not
// throw.

#pragma once

#include <verge/base/callback.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/execution.hpp>
#include <verge/io/execution_context.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace verge {

/// Thrown by execute(), query() and the properties of an empty any_io_executor, and by a
/// requirement that the executor it holds cannot meet.
class bad_executor : public std::exception {
public:
    [[nodiscard]] const char* what() const noexcept override { return "verge: no executor"; }
};

namespace detail::io {

/// The properties that the table of operations can change or report.
enum class any_property { possibly, never_block, fork, continuation, tracked, untracked };

// Can be stored.  execution::executor is not used here: it checks for a copy and for ==, which
// would check for the conversion to any_io_executor, and so evaluate itself.
template <class T>
concept holdable_executor = requires(const T& ex, void (*f)()) {
    ex.execute(f);
    ex.query(execution::context);
};

}  // namespace detail::io

/// Holds a copy of any executor that has a context, or nothing.
///
/// An executor_with_default (verge/io/default_completion_token.hpp) is stored without its default
/// token.
class any_io_executor {
    using property = detail::io::any_property;

public:
    /// An empty one: it is false, and execute() throws bad_executor.
    any_io_executor() noexcept {}  // NOLINT(modernize-use-equals-default): a const one may be made
    /// The same.
    any_io_executor(std::nullptr_t) noexcept {}  // NOLINT: implicit, as in Asio

    /// Holds a copy of `ex`.  Throws std::bad_alloc if `ex` is larger than 32 bytes, or may throw
    /// when it is moved.
    template <class Executor>
    requires(
        !std::is_same_v<detail::io::without_default_t<std::decay_t<Executor>>, any_io_executor> &&
        detail::io::holdable_executor<std::decay_t<Executor>>)
        any_io_executor(Executor&& ex) {  // NOLINT: implicit, as in Asio
        using target = detail::io::without_default_t<std::decay_t<Executor>>;
        if constexpr (fits<target>) {
            ::new (static_cast<void*>(storage_)) target(std::forward<Executor>(ex));
        } else {
            ::new (static_cast<void*>(storage_)) std::shared_ptr<const target>(
                std::make_shared<const target>(std::forward<Executor>(ex)));
        }
        table_ = &table_of<target>;
    }

    /// Copies the executor, or shares the one on the heap.  A tracked executor
    /// (outstanding_work.tracked) counts as work once per copy.
    any_io_executor(const any_io_executor& other) noexcept : table_(other.table_) {
        if (table_ != nullptr) table_->copy(other, storage_);
    }
    /// Leaves `other` empty.
    any_io_executor(any_io_executor&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)) {
        if (table_ != nullptr) table_->relocate(other.storage_, storage_);
    }
    /// Replaces the executor that it holds; by nullptr, leaves it empty.
    any_io_executor& operator=(const any_io_executor& other) noexcept {
        if (this != &other) *this = any_io_executor(other);
        return *this;
    }
    any_io_executor& operator=(any_io_executor&& other) noexcept {
        if (this == &other) return *this;
        const any_io_executor old(std::move(*this));
        table_ = std::exchange(other.table_, nullptr);
        if (table_ != nullptr) table_->relocate(other.storage_, storage_);
        return *this;
    }
    any_io_executor& operator=(std::nullptr_t) noexcept { return *this = any_io_executor(); }
    ~any_io_executor() {
        if (table_ != nullptr) table_->destroy(storage_);
    }

    /// False if it is empty.
    explicit operator bool() const noexcept { return table_ != nullptr; }

    /// Gives `f` to the executor that it holds, which decides where and when `f` runs.  `f` may be
    /// move-only.  Throws bad_executor if this is empty, and what that executor throws.
    template <class F>
    void execute(F&& f) const {
        table().execute(*this, callback(std::forward<F>(f)));
    }

    /// The execution context of the executor that it holds, and its properties.  A property that
    /// the executor cannot report has the value 0: possibly, fork, untracked.  Throws bad_executor
    /// if this is empty.
    [[nodiscard]] execution_context& context() const { return table().context(*this); }
    /// The same, for verge::query.
    [[nodiscard]] execution_context& query(execution::context_t) const { return context(); }
    [[nodiscard]] execution::blocking_t query(execution::blocking_t) const {
        return execution::blocking_t(table().query(*this, property::possibly));
    }
    [[nodiscard]] execution::relationship_t query(execution::relationship_t) const {
        return execution::relationship_t(table().query(*this, property::fork));
    }
    [[nodiscard]] execution::outstanding_work_t query(execution::outstanding_work_t) const {
        return execution::outstanding_work_t(table().query(*this, property::tracked));
    }

    /// A copy with that property.  If the executor that it holds does not support blocking.never,
    /// both require and prefer of it throw bad_executor, so that post() never runs a function in
    /// place; every other property that is not supported leaves the copy unchanged.
    [[nodiscard]] any_io_executor require(execution::blocking_t::never_t) const {
        return with(property::never_block);
    }
    [[nodiscard]] any_io_executor prefer(execution::blocking_t::never_t) const {
        return with(property::never_block);
    }
    [[nodiscard]] any_io_executor prefer(execution::blocking_t::possibly_t) const {
        return with(property::possibly);
    }
    [[nodiscard]] any_io_executor prefer(execution::relationship_t::fork_t) const {
        return with(property::fork);
    }
    [[nodiscard]] any_io_executor prefer(execution::relationship_t::continuation_t) const {
        return with(property::continuation);
    }
    [[nodiscard]] any_io_executor prefer(execution::outstanding_work_t::tracked_t) const {
        return with(property::tracked);
    }
    [[nodiscard]] any_io_executor prefer(execution::outstanding_work_t::untracked_t) const {
        return with(property::untracked);
    }

    /// The executor that it holds if its type is `Executor`, or else nullptr.  Valid until this
    /// object is changed or destroyed.
    template <class Executor>
    [[nodiscard]] const Executor* target() const noexcept {
        if (table_ != &table_of<Executor>) return nullptr;
        return &held<Executor>(storage_);
    }
    /// The type of the executor that it holds; typeid(void) if this is empty.
    [[nodiscard]] const std::type_info& target_type() const noexcept {
        return table_ != nullptr ? *table_->type : typeid(void);
    }

    /// Equal if both are empty, or hold executors of one type that compare equal.  As templates, so
    /// that no argument is converted.
    template <std::same_as<any_io_executor> T>
    friend bool operator==(const T& a, const T& b) noexcept {
        if (a.table_ != b.table_) return false;
        return a.table_ == nullptr || a.table_->equal(a, b);
    }
    template <std::same_as<any_io_executor> T>
    friend bool operator==(const T& a, std::nullptr_t) noexcept {
        return !a;
    }

private:
    // One table per type of executor: what the compiler would put into a vtable.
    struct operations {
        void (*copy)(const any_io_executor& from, std::byte* to) noexcept;
        void (*relocate)(std::byte* from, std::byte* to) noexcept;
        void (*destroy)(std::byte* storage) noexcept;
        bool (*equal)(const any_io_executor& a, const any_io_executor& b) noexcept;
        void (*execute)(const any_io_executor& self, callback&& f);
        execution_context& (*context)(const any_io_executor& self);
        any_io_executor (*with)(const any_io_executor& self, property p);
        int (*query)(const any_io_executor& self, property p);
        const std::type_info* type;
    };

    // Whether a T is stored in place.
    static constexpr std::size_t capacity = 32;
    template <class T>
    static constexpr bool fits =
        (sizeof(T) <= capacity) &&
        (alignof(T) <= alignof(void*)) && std::is_nothrow_move_constructible_v<T>;

    // The executor, in place or on the heap.
    template <class T>
    static const T& held(const std::byte* storage) noexcept {
        if constexpr (fits<T>) {
            return *std::launder(reinterpret_cast<const T*>(storage));
        } else {
            return **std::launder(reinterpret_cast<const std::shared_ptr<const T>*>(storage));
        }
    }

    // What is in the storage: the executor, or a pointer that all copies share.
    template <class T>
    using stored = std::conditional_t<fits<T>, T, std::shared_ptr<const T>>;
    template <class T>
    static stored<T>& in(std::byte* storage) noexcept {
        return *std::launder(reinterpret_cast<stored<T>*>(storage));
    }

    // The functions of the table, for an executor of type T.
    template <class T>
    static void copy_it(const any_io_executor& from, std::byte* to) noexcept {
        ::new (static_cast<void*>(to))
            stored<T>(*std::launder(reinterpret_cast<const stored<T>*>(from.storage_)));
    }
    template <class T>
    static void relocate_it(std::byte* from, std::byte* to) noexcept {
        ::new (static_cast<void*>(to)) stored<T>(std::move(in<T>(from)));
        std::destroy_at(&in<T>(from));
    }
    template <class T>
    static void destroy_it(std::byte* storage) noexcept {
        std::destroy_at(&in<T>(storage));
    }
    template <class T>
    static bool equal_it(const any_io_executor& a, const any_io_executor& b) noexcept {
        return held<T>(a.storage_) == held<T>(b.storage_);
    }
    template <class T>
    static void execute_it(const any_io_executor& self, callback&& f) {
        held<T>(self.storage_).execute(std::move(f));
    }
    template <class T>
    static execution_context& context_it(const any_io_executor& self) {
        return held<T>(self.storage_).query(execution::context);
    }
    template <class T>
    static any_io_executor with_it(const any_io_executor& self, property p) {
        const T& ex = held<T>(self.storage_);
        switch (p) {
            case property::never_block:
                if constexpr (can_require_v<T, execution::blocking_t::never_t>) {
                    return verge::prefer(ex, execution::blocking.never);
                } else {
                    throw bad_executor();
                }
            case property::possibly:
                return verge::prefer(ex, execution::blocking.possibly);
            case property::fork:
                return verge::prefer(ex, execution::relationship.fork);
            case property::continuation:
                return verge::prefer(ex, execution::relationship.continuation);
            case property::tracked:
                return verge::prefer(ex, execution::outstanding_work.tracked);
            case property::untracked:
                return verge::prefer(ex, execution::outstanding_work.untracked);
        }
        return self;
    }
    template <class T>
    static int query_it(const any_io_executor& self, property p) {
        const T& ex = held<T>(self.storage_);
        if (p == property::possibly) {
            if constexpr (can_query_v<T, execution::blocking_t>)
                return verge::query(ex, execution::blocking).number();
        } else if (p == property::fork) {
            if constexpr (can_query_v<T, execution::relationship_t>)
                return verge::query(ex, execution::relationship).number();
        } else {
            if constexpr (can_query_v<T, execution::outstanding_work_t>)
                return verge::query(ex, execution::outstanding_work).number();
        }
        return 0;
    }
    template <class T>
    static constexpr operations table_of{&copy_it<T>,  &relocate_it<T>, &destroy_it<T>,
                                         &equal_it<T>, &execute_it<T>,  &context_it<T>,
                                         &with_it<T>,  &query_it<T>,    &typeid(T)};

    // The table, or bad_executor if there is none.
    [[nodiscard]] const operations& table() const {
        if (table_ == nullptr) throw bad_executor();
        return *table_;
    }
    [[nodiscard]] any_io_executor with(property p) const { return table().with(*this, p); }

    alignas(void*) std::byte storage_[capacity];
    const operations* table_ = nullptr;  // nullptr: empty
};

/// Asio has a second type for executors of completion handlers; here it is the same.
using any_completion_executor = any_io_executor;

}  // namespace verge
