// bench/post/verge.cpp -- `post` on Verge's event loop.

#include "post/post.hpp"
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/post.hpp>

#include <utility>

namespace {

class verge_loop {
public:
    template <class F>
    void post(F&& f) {
        verge::post(context_, std::forward<F>(f));
    }
    void run() { context_.run(); }
    void stop() { context_.stop(); }

private:
    verge::io_context context_{1};
    verge::executor_work_guard<verge::io_context::executor_type> guard_{context_.get_executor()};
};

const bench::add_peer registered{
    {.work = "post", .name = "verge", .run = bench::run_post<verge_loop>}};

}  // namespace
