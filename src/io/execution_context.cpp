// src/io/execution_context.cpp -- the list of a context's services: find, insert, shut down,
// destroy.

#include <verge/base/detail/os_thread.hpp>
#include <verge/io/execution_context.hpp>

#include <mutex>
#include <utility>
#include <vector>

namespace verge {

struct execution_context::registry {
    std::unique_ptr<detail::io::service_memory> memory;  // nullptr: operator new
    detail::thread_mutex lock;
    service* newest = nullptr;  // under lock
    bool shut_down = false;     // by the destructor
};

execution_context::execution_context() : execution_context(nullptr) {}

execution_context::execution_context(std::unique_ptr<detail::io::service_memory> memory)
    : registry_(std::make_unique<registry>()) {
    registry_->memory = std::move(memory);
}

execution_context::~execution_context() {
    shutdown();
    destroy();
}

void execution_context::notify_fork(fork_event event) {
    std::vector<service*> all;
    {
        const std::lock_guard hold(registry_->lock);
        for (service* s = registry_->newest; s != nullptr; s = s->next_)
            all.push_back(s);
    }
    if (event == fork_event::prepare) {
        for (service* s : all)
            s->notify_fork(event);
    } else {
        for (std::size_t i = all.size(); i > 0; --i)
            all[i - 1]->notify_fork(event);
    }
}

void execution_context::shutdown() noexcept {
    if (std::exchange(registry_->shut_down, true)) return;
    // Without the lock, because shutdown() runs destructors of the user, which may use services.
    // One that is made meanwhile is put in front of `s`, and is not shut down.
    for (service* s = registry_->newest; s != nullptr; s = s->next_)
        s->shutdown();
}

void execution_context::destroy() noexcept {
    while (service* const s = registry_->newest) {
        registry_->newest = s->next_;
        const std::size_t size = s->size_;
        if (size == 0) {
            delete s;
            continue;
        }
        void* const memory = dynamic_cast<void*>(s);  // of the whole object
        std::destroy_at(s);
        deallocate(memory, size);
    }
}

execution_context::service* execution_context::find(const void* key) const noexcept {
    const std::lock_guard hold(registry_->lock);
    for (service* s = registry_->newest; s != nullptr; s = s->next_) {
        if (s->key_ == key) return s;
    }
    return nullptr;
}

execution_context::service* execution_context::insert(const void* key, service* made,
                                                      std::size_t size) noexcept {
    const std::lock_guard hold(registry_->lock);
    for (service* s = registry_->newest; s != nullptr; s = s->next_) {
        if (s->key_ == key) return s;
    }
    made->key_ = key;
    made->size_ = size;
    made->next_ = registry_->newest;
    registry_->newest = made;
    return made;
}

void* execution_context::allocate(std::size_t size) {
    return registry_->memory != nullptr ? registry_->memory->allocate(size) : ::operator new(size);
}

void execution_context::deallocate(void* memory, std::size_t size) noexcept {
    if (registry_->memory != nullptr) {
        registry_->memory->deallocate(memory, size);
    } else {
        ::operator delete(memory);
    }
}

}  // namespace verge
