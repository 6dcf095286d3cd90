// verge/io/execution_context.hpp -- a place where functions run, and the services that live in it.
//
//     class my_service : public verge::execution_context::service {
//         explicit my_service(verge::execution_context& context) : service(context) {}
//         void shutdown() override { ... }           // destroy what the user has given
//     };
//     auto& s = verge::use_service<my_service>(context);          // made on first use
//
// io_context and thread_pool derive from it.  A service is the part of a library that exists once a
// context: the timers, the sockets.
//
// Guarantees, under the names of the tests that hold them
//   AServiceIsMadeOnce                      also when two threads ask for it first.
//   ServicesAreShutDownThenDestroyed        the newest first; all are shut down before any ends.
//   AServiceCannotBeAddedTwice              make_service and add_service throw.
//
// Thread safety: use_service, has_service and add_service from any thread; construction,
// destruction and notify_fork alone.
// Exceptions: what a service's constructor throws; service_already_exists, invalid_service_owner.

#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace verge {

class service_already_exists : public std::logic_error {
public:
    service_already_exists() : std::logic_error("verge: the service exists already") {}
};

class invalid_service_owner : public std::logic_error {
public:
    invalid_service_owner() : std::logic_error("verge: the service is of another context") {}
};

enum class fork_event {
    prepare,  ///< about to fork
    parent,   ///< forked: this is the parent
    child,    ///< forked: this is the child
};

namespace detail::io {

/// Where the memory of a context's services comes from.
class service_memory {
public:
    virtual ~service_memory() = default;
    virtual void* allocate(std::size_t size) = 0;
    virtual void deallocate(void* memory, std::size_t size) noexcept = 0;
};

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

class execution_context {
public:
    class service;

    /// Asio's spelling of what notify_fork is told.
    using fork_event = verge::fork_event;
    static constexpr fork_event fork_prepare = fork_event::prepare;
    static constexpr fork_event fork_parent = fork_event::parent;
    static constexpr fork_event fork_child = fork_event::child;

    /// For services that name themselves by `static execution_context::id id;`.
    class id {};

    execution_context();

    /// Services are allocated by a copy of `allocator`.
    template <class Allocator>
    execution_context(std::allocator_arg_t, const Allocator& allocator)
        : execution_context(std::make_unique<detail::io::allocator_memory<Allocator>>(allocator)) {}

    execution_context(const execution_context&) = delete;
    execution_context& operator=(const execution_context&) = delete;

    /// shutdown(), then destroy().
    ~execution_context();

    /// Tells all services of a fork: `prepare` in reverse order, the others in order.
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
    /// Calls shutdown() of every service, the newest first.  Once.
    void shutdown() noexcept;
    /// Destroys every service, the newest first.
    void destroy() noexcept;

private:
    struct registry;
    explicit execution_context(std::unique_ptr<detail::io::service_memory> memory);

    [[nodiscard]] service* find(const void* key) const noexcept;
    // The service that is there from now on: this one, or another that was quicker.
    service* insert(const void* key, service* made, std::size_t size) noexcept;
    void* allocate(std::size_t size);
    void deallocate(void* memory, std::size_t size) noexcept;

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
    template <class Service>
    void discard(Service* made) noexcept {
        std::destroy_at(made);
        deallocate(made, sizeof(Service));
    }
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

/// The base of every service.
class execution_context::service {
public:
    service(const service&) = delete;
    service& operator=(const service&) = delete;
    virtual ~service() = default;

    [[nodiscard]] execution_context& context() const noexcept { return owner_; }

protected:
    explicit service(execution_context& owner) noexcept : owner_(owner) {}

private:
    friend class execution_context;

    /// Destroys the handlers that this service holds.  Nothing is run.
    virtual void shutdown() = 0;
    virtual void notify_fork(fork_event) {}

    execution_context& owner_;
    const void* key_ = nullptr;
    service* next_ = nullptr;  // towards the oldest
    std::size_t size_ = 0;     // 0: it was made by the user's own new
};

/// The context's service of that type; made now if there is none.
template <class Service>
Service& use_service(execution_context& context) {
    const void* const key = execution_context::key_of<Service>();
    if (auto* const there = context.find(key)) return static_cast<Service&>(*there);
    auto* const made = context.construct<Service>(context);
    auto* const there = context.insert(key, made, sizeof(Service));
    if (there != made) context.discard(made);
    return static_cast<Service&>(*there);
}

/// Makes a service with further arguments.  Throws service_already_exists.
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

/// Gives the context a service made with `new`; it is the context's then.
template <class Service>
void add_service(execution_context& context, Service* added) {
    if (&added->context() != &context) throw invalid_service_owner();
    if (context.insert(execution_context::key_of<Service>(), added, 0) != added) {
        throw service_already_exists();
    }
}

template <class Service>
bool has_service(execution_context& context) {
    return context.find(execution_context::key_of<Service>()) != nullptr;
}

}  // namespace verge
