// verge/io/execution_context.hpp -- a place where functions run, and the services that live in it.
//
//     class my_service : public verge::execution_context::service {
//         explicit my_service(verge::execution_context& context) : service(context) {}
//         void shutdown() override { ... }           // destroy the user's handlers
//     };
//     auto& s = verge::use_service<my_service>(context);          // made on first use
//
// The base of io_context and thread_pool.  A service is the part of a library that exists once per
// context: the timers, the sockets.  Users of contexts do not need this header; authors of services
// do.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/io_context_test.cpp)
//   AServiceIsMadeOnce                      also when two threads ask for it first: both get one.
//   ServicesAreShutDownThenDestroyed        the newest first; all are shut down before any ends.
//   AServiceCannotBeAddedTwice              make_service and add_service throw.
//
// Thread safety: use_service, make_service, has_service and add_service from any thread;
// construction, destruction and notify_fork need exclusive access.
//
// Exceptions: what a service's constructor throws; service_already_exists, invalid_service_owner;
// std::bad_alloc.

#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace verge {

/// Thrown by make_service and add_service: the context has a service with that key.
class service_already_exists : public std::logic_error {
public:
    service_already_exists() : std::logic_error("verge: the service exists already") {}
};

/// Thrown by add_service: the service was constructed for another context.
class invalid_service_owner : public std::logic_error {
public:
    invalid_service_owner() : std::logic_error("verge: the service is of another context") {}
};

/// What notify_fork reports.
enum class fork_event {
    prepare,  ///< about to fork
    parent,   ///< forked: this is the parent
    child,    ///< forked: this is the child
};

namespace detail::io {

/// Allocates the memory of a context's services.
class service_memory {
public:
    virtual ~service_memory() = default;
    virtual void* allocate(std::size_t size) = 0;
    virtual void deallocate(void* memory, std::size_t size) noexcept = 0;
};

/// The same by a user's allocator, in units of max_align_t.
template <class Allocator>
class allocator_memory final : public service_memory {
    using rebound =
        typename std::allocator_traits<Allocator>::template rebind_alloc<std::max_align_t>;

public:
    explicit allocator_memory(const Allocator& allocator) : allocator_(allocator) {}
    void* allocate(std::size_t size) override {
        return std::to_address(std::allocator_traits<rebound>::allocate(allocator_, units(size)));
    }
    void deallocate(void* memory, std::size_t size) noexcept override {
        using pointer = typename std::allocator_traits<rebound>::pointer;
        std::allocator_traits<rebound>::deallocate(
            allocator_,
            std::pointer_traits<pointer>::pointer_to(*static_cast<std::max_align_t*>(memory)),
            units(size));
    }

private:
    static std::size_t units(std::size_t size) noexcept {
        return (size + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t);
    }
    rebound allocator_;
};

/// The type whose key identifies a service: Service::key_type if that is declared, so that a
/// derived service can stand in for its base.
template <class Service>
struct service_key_of {
    using type = Service;
};
template <class Service>
requires requires {
    typename Service::key_type;
}
struct service_key_of<Service> {
    using type = typename Service::key_type;
};

/// Its address is the key.
template <class Key>
inline constexpr char service_key = 0;

}  // namespace detail::io

/// Owns its services, and identifies each by its type.  Neither copied nor moved.
class execution_context {
public:
    class service;

    /// Asio's names for the argument of notify_fork.
    using fork_event = verge::fork_event;
    static constexpr fork_event fork_prepare = fork_event::prepare;
    static constexpr fork_event fork_parent = fork_event::parent;
    static constexpr fork_event fork_child = fork_event::child;

    /// A service that declares `static execution_context::id id;` is identified by that object.
    class id {};

    /// A context without services, whose memory comes from operator new.
    execution_context();

    /// The memory of services comes from a copy of `allocator`.
    template <class Allocator>
    execution_context(std::allocator_arg_t, const Allocator& allocator)
        : execution_context(std::make_unique<detail::io::allocator_memory<Allocator>>(allocator)) {}

    execution_context(const execution_context&) = delete;
    execution_context& operator=(const execution_context&) = delete;

    /// shutdown(), then destroy().  No other thread may use the context any more.
    ~execution_context();

    /// To be called around fork(2), when no other thread uses the context: with `prepare` before
    /// it, with `parent` and `child` after it.  Passes the event to all services, `prepare` to the
    /// newest first, the others to the oldest first.  Throws std::bad_alloc.
    void notify_fork(fork_event event);

    template <class Service>
    friend Service& use_service(execution_context& context);
    template <class Service, class... Args>
    friend Service& make_service(execution_context& context, Args&&... args);
    template <class Service>
    friend void add_service(execution_context& context, Service* added);
    template <class Service>
    friend bool has_service(execution_context& context);

protected:
    /// Calls shutdown() of every service, the newest first.  Has an effect once.  A derived class
    /// calls it in its destructor, while its own members still exist.  A service that is made
    /// meanwhile, by the destructor of a user's handler, is destroyed without a shutdown.
    void shutdown() noexcept;
    /// Destroys every service, the newest first.
    void destroy() noexcept;

private:
    struct registry;
    explicit execution_context(std::unique_ptr<detail::io::service_memory> memory);

    // The service with that key, or nullptr.  A linear search under the lock.
    [[nodiscard]] service* find(const void* key) const noexcept;
    // Adds `made`, unless another thread has added one with that key.  Returns the one that is in
    // the list.
    service* insert(const void* key, service* made, std::size_t size) noexcept;
    void* allocate(std::size_t size);
    void deallocate(void* memory, std::size_t size) noexcept;

    // Allocates and constructs, without the lock: a constructor may use other services.
    template <class Service, class... Args>
    Service* construct(Args&&... args) {
        static_assert(alignof(Service) <= alignof(std::max_align_t));
        void* const memory = allocate(sizeof(Service));
        try {
            return ::new (memory) Service(std::forward<Args>(args)...);
        } catch (...) {
            deallocate(memory, sizeof(Service));
            throw;
        }
    }
    // Destroys a service that was not inserted.
    template <class Service>
    void discard(Service* made) noexcept {
        std::destroy_at(made);
        deallocate(made, sizeof(Service));
    }
    // The address that identifies the service's type.
    template <class Service>
    static const void* key_of() noexcept {
        if constexpr (requires { &Service::id; }) {
            return &Service::id;
        } else {
            return &detail::io::service_key<typename detail::io::service_key_of<Service>::type>;
        }
    }

    std::unique_ptr<registry> registry_;
};

/// The base of every service.  A context constructs it on first use, shuts it down, and destroys
/// it.
class execution_context::service {
public:
    service(const service&) = delete;
    service& operator=(const service&) = delete;
    virtual ~service() = default;

    /// The context that owns it.
    [[nodiscard]] execution_context& context() const noexcept { return owner_; }

protected:
    /// For derived classes: their first constructor argument is the context.
    explicit service(execution_context& owner) noexcept : owner_(owner) {}

private:
    friend class execution_context;

    /// Destroys the user's handlers that this service holds, without calling them.  The other
    /// services still exist.  Called once, before any service is destroyed.
    virtual void shutdown() = 0;
    /// See execution_context::notify_fork.  Does nothing unless it is overridden.
    virtual void notify_fork(fork_event) {}

    execution_context& owner_;
    const void* key_ = nullptr;  // set by insert(), as the two below
    service* next_ = nullptr;    // towards the oldest
    std::size_t size_ = 0;       // 0: allocated by the user with new
};

/// The context's service of that type; constructed from the context if there is none.  If several
/// threads ask first, each may construct one; one of them stays, the others are destroyed, and all
/// threads get that one.  Valid until the context is destroyed.
template <class Service>
Service& use_service(execution_context& context) {
    const void* const key = execution_context::key_of<Service>();
    if (auto* const there = context.find(key)) return static_cast<Service&>(*there);
    auto* const made = context.construct<Service>(context);
    auto* const there = context.insert(key, made, sizeof(Service));
    if (there != made) context.discard(made);
    return static_cast<Service&>(*there);
}

/// Constructs a service from the context and `args`.  Throws service_already_exists if there is
/// one.
template <class Service, class... Args>
Service& make_service(execution_context& context, Args&&... args) {
    const void* const key = execution_context::key_of<Service>();
    if (context.find(key) != nullptr) throw service_already_exists();
    auto* const made = context.construct<Service>(context, std::forward<Args>(args)...);
    if (context.insert(key, made, sizeof(Service)) != made) {
        context.discard(made);
        throw service_already_exists();
    }
    return *made;
}

/// Gives the context a service that was allocated with `new`; the context deletes it.  If this
/// throws invalid_service_owner or service_already_exists, the caller still owns it.
template <class Service>
void add_service(execution_context& context, Service* added) {
    if (&added->context() != &context) throw invalid_service_owner();
    if (context.insert(execution_context::key_of<Service>(), added, 0) != added) {
        throw service_already_exists();
    }
}

/// Whether the context has a service of that type.
template <class Service>
bool has_service(execution_context& context) {
    return context.find(execution_context::key_of<Service>()) != nullptr;
}

}  // namespace verge
