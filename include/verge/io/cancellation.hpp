// verge/io/cancellation.hpp -- cancels one operation: signals, slots, and the state between them.
//
//     verge::cancellation_signal stop;
//     timer.async_wait(verge::bind_cancellation_slot(stop.slot(), handler));
//     ...
//     stop.emit(verge::cancellation_type::all);       // that wait ends with operation_aborted
//
// cancel() of a timer or a socket ends all its operations; a slot ends one.  A signal has one slot,
// and a slot has at most one handler: the operation installs it when it begins, and it is removed
// when the operation completes.  Waits of timers and operations on descriptors honour every kind of
// cancellation.
//
// A request is not a promise: an operation that has completed by then completes with its result.
// For a limit of time use cancel_after (verge/io/cancel_after.hpp), which is built on this.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_test.cpp)
//   ASlotHoldsOneHandler             a second one replaces the first.
//   ASignalMayEndBeforeTheOperation  if the handler is never called: the context is destroyed.
//   AStateFiltersAndRemembers        AStateHasAFilterEachWay         AStateMayEndBeforeItsSlot
//
// Thread safety: none.  emit() must not run at the same time as the operation's beginning or its
// handler: call it from the same thread or strand, as in Asio.
//
// Exceptions: emplace and assign throw std::bad_alloc, and what the handler's constructor throws.
// emit() throws what the installed handler throws; those of this library's operations do not throw.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/async_result.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace verge {

/// What the canceller accepts, as a set of bits: how much of the operation may have happened when
/// it ends early.  An operation that can keep a stronger promise honours the weaker request as
/// well.
enum class cancellation_type : unsigned {
    none = 0,
    terminal = 1,  ///< The object may be left in a state in which it can only be closed.
    partial = 2,   ///< Part of the work may be done; the result reports how much.
    total = 4,     ///< No effect is visible: the operation can be repeated.
    all = 0xFFFFFFFF,
};
/// Asio's other name for it.
using cancellation_type_t = cancellation_type;

/// Sets of kinds.  !a is true for none.
constexpr cancellation_type operator&(cancellation_type a, cancellation_type b) noexcept {
    return static_cast<cancellation_type>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}
constexpr cancellation_type operator|(cancellation_type a, cancellation_type b) noexcept {
    return static_cast<cancellation_type>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool operator!(cancellation_type a) noexcept {
    return a == cancellation_type::none;
}

namespace detail::io {

/// The handler in a slot, without its type.  Owned by the signal.
struct cancellation_handler {
    virtual void call(cancellation_type type) = 0;
    virtual ~cancellation_handler() = default;
};

/// The handler in a slot: a function of the user or of an operation.
template <class F>
struct cancellation_function final : cancellation_handler {
    template <class... Args>
    explicit cancellation_function(Args&&... args) : f(std::forward<Args>(args)...) {}
    void call(cancellation_type type) override { f(type); }
    F f;
};

}  // namespace detail::io

/// Where an operation installs the handler that cancels it.  A reference to a signal, or to
/// nothing; the signal must outlive its use.
class cancellation_slot {
public:
    /// Refers to nothing: is_connected() is false.
    constexpr cancellation_slot() noexcept = default;

    /// Constructs a handler F(args...) in the slot, and destroys the one before.  Needs
    /// is_connected().  Returns the handler, which is called with a cancellation_type by emit().
    template <class F, class... Args>
    F& emplace(Args&&... args) {
        auto* const made = new detail::io::cancellation_function<F>(std::forward<Args>(args)...);
        delete std::exchange(*handler_, made);
        return made->f;
    }
    /// The same with a copy of `f`.
    template <class F>
    std::decay_t<F>& assign(F&& f) {
        return emplace<std::decay_t<F>>(std::forward<F>(f));
    }
    /// Destroys the handler, if there is one.
    void clear() noexcept {
        if (handler_ != nullptr) delete std::exchange(*handler_, nullptr);
    }
    /// Whether it refers to a signal.
    [[nodiscard]] constexpr bool is_connected() const noexcept { return handler_ != nullptr; }
    /// Whether it refers to a signal, and a handler is installed.
    [[nodiscard]] bool has_handler() const noexcept {
        return handler_ != nullptr && *handler_ != nullptr;
    }
    friend constexpr bool operator==(cancellation_slot, cancellation_slot) noexcept = default;

private:
    friend class cancellation_signal;
    constexpr explicit cancellation_slot(detail::io::cancellation_handler** at) noexcept
        : handler_(at) {}
    detail::io::cancellation_handler** handler_ = nullptr;
};

/// The side of the canceller.  Neither copied nor moved: slots refer to it.  It must outlive the
/// operation, which clears the slot before its handler is called.  The destructor destroys the
/// installed handler without calling it.
class cancellation_signal {
public:
    cancellation_signal() noexcept = default;
    cancellation_signal(const cancellation_signal&) = delete;
    cancellation_signal& operator=(const cancellation_signal&) = delete;
    ~cancellation_signal() { delete handler_; }

    /// Calls the slot's handler, if it has one, in this call.  The cancelled operation completes
    /// later, through its loop.
    void emit(cancellation_type type) {
        if (handler_ != nullptr) handler_->call(type);
    }
    /// Its one slot: all copies are the same.
    [[nodiscard]] cancellation_slot slot() noexcept { return cancellation_slot(&handler_); }

private:
    detail::io::cancellation_handler* handler_ = nullptr;
};

/// Filters for cancellation_state: which kinds of requests pass.  This one passes all.
struct enable_total_cancellation {
    constexpr cancellation_type operator()(cancellation_type type) const noexcept { return type; }
};
/// Passes terminal and partial.
struct enable_partial_cancellation {
    constexpr cancellation_type operator()(cancellation_type type) const noexcept {
        return type & (cancellation_type::terminal | cancellation_type::partial);
    }
};
/// Passes terminal alone: the default of cancellation_state.
struct enable_terminal_cancellation {
    constexpr cancellation_type operator()(cancellation_type type) const noexcept {
        return type & cancellation_type::terminal;
    }
};
/// Passes none.
struct disable_cancellation {
    constexpr cancellation_type operator()(cancellation_type) const noexcept {
        return cancellation_type::none;
    }
};

/// For operations made of others: stands between the outer slot and the inner operations, filters
/// the requests and remembers them.  A handle: copies are the same state.
class cancellation_state {
    struct shared {
        cancellation_type seen = cancellation_type::none;  // requested, and passed by `in`
        cancellation_signal inner;                         // to the inner operations
    };
    // Owns the state, because the outer slot may outlive every handle of it.
    template <class In, class Out>
    struct pass_on {
        std::shared_ptr<shared> to;
        In in;
        Out out;
        void operator()(cancellation_type type) {
            const cancellation_type let = in(type);
            to->seen = to->seen | let;
            const cancellation_type passed = out(let);
            if (passed != cancellation_type::none) to->inner.emit(passed);
        }
    };

public:
    /// Connected to nothing: never cancelled, and its slot is not connected.
    cancellation_state() noexcept = default;
    /// Installs itself in `outer`, if that is connected.  Without a filter, terminal requests pass;
    /// with one, `filter` decides about requests, and all that it passes reach the inner
    /// operations.  Throws std::bad_alloc.
    explicit cancellation_state(cancellation_slot outer)
        : cancellation_state(outer, enable_terminal_cancellation{}) {}
    template <class Filter>
    cancellation_state(cancellation_slot outer, Filter filter)
        : cancellation_state(outer, filter, enable_total_cancellation{}) {}
    /// `in` decides which requests are remembered, `out` which of these reach the inner operations.
    template <class In, class Out>
    cancellation_state(cancellation_slot outer, In in, Out out)
        : shared_(outer.is_connected() ? std::make_shared<shared>() : nullptr) {
        if (shared_ != nullptr) {
            outer.emplace<pass_on<In, Out>>(
                pass_on<In, Out>{shared_, std::move(in), std::move(out)});
        }
    }

    /// The slot for the inner operations.
    [[nodiscard]] cancellation_slot slot() const noexcept {
        return shared_ != nullptr ? shared_->inner.slot() : cancellation_slot();
    }
    /// All kinds that were requested and passed `in`, since construction or clear().
    [[nodiscard]] cancellation_type cancelled() const noexcept {
        return shared_ != nullptr ? shared_->seen : cancellation_type::none;
    }
    /// Forgets the requests of these kinds.
    void clear(cancellation_type mask = cancellation_type::all) noexcept {
        if (shared_ == nullptr) return;
        const auto kept = ~static_cast<unsigned>(mask);
        shared_->seen = shared_->seen & static_cast<cancellation_type>(kept);
    }

private:
    std::shared_ptr<shared> shared_;
};

namespace detail::io {

/// Declares a slot.
template <class T>
concept has_own_slot = requires(const T& t) {
    typename T::cancellation_slot_type;
    t.get_cancellation_slot();
};

}  // namespace detail::io

/// The slot of a handler: its own, that of the handler it wraps, or else a given default.  May be
/// specialised for a user's type; see verge/io/associated.hpp.
template <class T, class Default = cancellation_slot>
struct associated_cancellation_slot {
    using type = Default;
    static constexpr bool is_default = true;
    static type get(const T&, const Default& otherwise = {}) noexcept { return otherwise; }
};
// It declares one.
template <class T, class Default>
requires detail::io::has_own_slot<T>
struct associated_cancellation_slot<T, Default> {
    using type = typename T::cancellation_slot_type;
    static type get(const T& t, const Default& = {}) noexcept { return t.get_cancellation_slot(); }
};
// It wraps a handler, and declares none: that of the inner one.
template <class T, class Default>
requires(detail::io::wraps_a_handler<T> &&
         !detail::io::has_own_slot<T>) struct associated_cancellation_slot<T, Default>
    : associated_cancellation_slot<typename T::wrapped_type, Default> {
    using inner = associated_cancellation_slot<typename T::wrapped_type, Default>;
    static typename inner::type get(const T& t, const Default& otherwise = {}) noexcept {
        return inner::get(t.wrapped(), otherwise);
    }
};
// std::ref(handler): that of the handler.
template <class T, class Default>
struct associated_cancellation_slot<std::reference_wrapper<T>, Default>
    : associated_cancellation_slot<T, Default> {
    using inner = associated_cancellation_slot<T, Default>;
    static typename inner::type get(std::reference_wrapper<T> t,
                                    const Default& otherwise = {}) noexcept {
        return inner::get(t.get(), otherwise);
    }
};
/// The type of that slot.
template <class T, class Default = cancellation_slot>
using associated_cancellation_slot_t = typename associated_cancellation_slot<T, Default>::type;

/// The slot associated with `t`; one that is not connected if it has none.
template <class T>
[[nodiscard]] auto get_associated_cancellation_slot(const T& t) noexcept {
    return associated_cancellation_slot<T>::get(t);
}

namespace detail::io {

/// False if a handler of this type never has a slot.
template <class T>
inline constexpr bool may_have_slot = !requires {
    requires associated_cancellation_slot<T>::is_default;
};

}  // namespace detail::io

/// A handler, or a token, with a slot: what bind_cancellation_slot() returns.
template <class T, class Slot = cancellation_slot>
class cancellation_slot_binder : public detail::io::binder<T> {
public:
    using cancellation_slot_type = Slot;

    /// Stores copies of both.
    template <class U>
    cancellation_slot_binder(const Slot& s, U&& target)
        : detail::io::binder<T>({}, std::forward<U>(target)), slot_(s) {}

    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept { return slot_; }

private:
    Slot slot_;
};

/// Binds `target`, a handler or a token, to `slot`: the operation that it begins can be cancelled
/// by that slot's signal.  A slot serves one operation at a time.
template <class Slot, class T>
[[nodiscard]] auto bind_cancellation_slot(const Slot& slot, T&& target) {
    return cancellation_slot_binder<std::decay_t<T>, Slot>(slot, std::forward<T>(target));
}

// A bound token: the inner token makes the handler, and the handler is bound.
template <class T, class Slot, class... Signatures>
struct async_result<cancellation_slot_binder<T, Slot>, Signatures...> {
    template <class Initiation, class Token, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Token&& token, Args&&... args) {
        return detail::io::initiate_wrapped<T, Signatures...>(
            std::forward<Initiation>(initiation), detail::io::forward_inner<Token>(token.wrapped()),
            [slot = token.get_cancellation_slot()]<class Handler>(Handler&& handler) {
                return cancellation_slot_binder<std::decay_t<Handler>, Slot>(
                    slot, std::forward<Handler>(handler));
            },
            std::forward<Args>(args)...);
    }
};

}  // namespace verge
