// src/fibers/switch_boost.cpp -- the stack switch for other processors: Boost.Context's fcontext.
//
// Unlike our own it also saves the floating-point control words.  -DVERGE_FIBER_BOOST_CONTEXT=ON
// selects it on any processor.

#include <verge/fibers/detail/execution.hpp>

#if !defined(__x86_64__) && !defined(__aarch64__) || defined(VERGE_FIBER_BOOST_CONTEXT)

#include <boost/context/detail/fcontext.hpp>

namespace verge::fibers::detail {

namespace {

namespace fcontext = boost::context::detail;

struct first_call {
    execution::entry fn;
    void* argument;
    execution* self;
};

// Stores the pointer of the stack that was left; only the target of the switch knows it.
void store(const fcontext::transfer_t& left) noexcept {
    *static_cast<void**>(left.data) = left.fctx;
}

// Entered once by make_stack() to take its arguments, and again by the first switch.
void first_frame(fcontext::transfer_t from_maker) noexcept {
    const first_call call = *static_cast<first_call*>(from_maker.data);
    store(fcontext::jump_fcontext(from_maker.fctx, nullptr));
    execution::begin(call.fn, call.argument, *call.self);
}

}  // namespace

extern "C" void verge_fiber_switch(void** save, void* load) noexcept {
    store(fcontext::jump_fcontext(load, static_cast<void*>(save)));
}

void* make_stack(std::byte* low, std::byte* top, execution::entry fn, void* argument,
                 execution& self) noexcept {
    first_call call{fn, argument, &self};
    void* const made =
        fcontext::make_fcontext(top, static_cast<std::size_t>(top - low), &first_frame);
    return fcontext::jump_fcontext(made, &call).fctx;
}

}  // namespace verge::fibers::detail

#endif
