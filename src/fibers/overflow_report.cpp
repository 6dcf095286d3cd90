// src/fibers/overflow_report.cpp -- the SIGSEGV handler that names the fiber whose stack
// overflowed.

#include "fibers/overflow_report.hpp"

#include "fibers/scheduler_core.hpp"
#include "fibers/worker.hpp"
#include <verge/base/detail/kernel.hpp>

#include <charconv>
#include <cstring>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

namespace verge::fibers::detail {

namespace os = verge::detail::os;

namespace {

constexpr std::size_t handler_stack = std::size_t{64} * 1024;
constexpr std::size_t guard_reach = std::size_t{64} * 1024;  // a large frame may skip some pages

struct sigaction before;  // written once, before the handler is installed

void say(const char* text, std::size_t size) noexcept {
    static_cast<void>(!os::write(STDERR_FILENO, text, size));
}

void on_fault(int signal, siginfo_t* info, void* context) {
    const worker* const w = worker::here();
    const fiber_record* const self = w != nullptr ? w->current() : nullptr;
    if (self != nullptr && self->own_stack != nullptr) {
        const auto* const at = static_cast<const std::byte*>(info->si_addr);
        const std::byte* const low = self->own_stack->low;
        if (at < low && at >= low - guard_reach) {
            constexpr char head[] = "verge: stack overflow in fiber ";
            char id[24];
            const auto end =
                std::to_chars(id, id + sizeof id - 2, scheduler_core::id_of(*self).value(), 16);
            say(head, sizeof head - 1);
            say(id, static_cast<std::size_t>(end.ptr - id));
            if (const fiber_extras* const extras = self->extras()) {
                say(" ", 1);
                extras->with_name([](const std::string& name) { say(name.data(), name.size()); });
            }
            say("\n", 1);
        }
    }
    // Continue as if this handler did not exist: the previous handler, or the default action.
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {
        struct sigaction fatal {};
        fatal.sa_handler = SIG_DFL;
        os::sigaction(signal, &fatal,
                      nullptr);  // the instruction faults again, and that ends the program
    }
}

}  // namespace

overflow_report::overflow_report(bool wanted) noexcept {
    if (!wanted) return;
    [[maybe_unused]] static const bool installed = [] {
        struct sigaction action {};
        action.sa_sigaction = &on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        ::sigemptyset(&action.sa_mask);
        os::sigaction(SIGSEGV, nullptr, &before);
        os::sigaction(SIGSEGV, &action, nullptr);
        return true;
    }();
    void* const memory = os::mmap(nullptr, handler_stack, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return;
    stack_ = memory;
    stack_t own{};
    own.ss_sp = memory;
    own.ss_size = handler_stack;
    os::sigaltstack(&own, nullptr);
    sigset_t faults;
    ::sigemptyset(&faults);
    ::sigaddset(&faults, SIGSEGV);
    os::pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

overflow_report::~overflow_report() {
    if (stack_ == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    os::sigaltstack(&none, nullptr);
    os::munmap(stack_, handler_stack);
}

}  // namespace verge::fibers::detail
