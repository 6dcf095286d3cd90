// src/driver/running_scope.cpp -- the thread-local chain of running callbacks.

#include <verge/driver/detail/running_scope.hpp>

namespace verge::detail::driver {

namespace {

constinit thread_local running_scope* own_innermost = nullptr;

}  // namespace

running_scope::running_scope(const void* service, timer_id id) noexcept
    : service_(service), id_(id), outer_(own_innermost) {
    own_innermost = this;
}

running_scope::~running_scope() {
    own_innermost = outer_;
}

const running_scope* running_scope::innermost() noexcept {
    return own_innermost;
}

bool running_scope::inside_timer(timer_id id) noexcept {
    for (const running_scope* scope = own_innermost; scope != nullptr; scope = scope->outer_) {
        if (scope->id_ == id) return true;
    }
    return false;
}

bool running_scope::inside_service(const void* service) noexcept {
    for (const running_scope* scope = own_innermost; scope != nullptr; scope = scope->outer_) {
        if (scope->service_ == service) return true;
    }
    return false;
}

}  // namespace verge::detail::driver
