// bench/post/asio.cpp -- `post` on standalone Asio.

#include "post/post.hpp"

#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

namespace {

class asio_loop {
public:
    template <class F>
    void post(F&& f) {
        asio::post(context_, std::forward<F>(f));
    }
    void run() { context_.run(); }
    void stop() { context_.stop(); }

private:
    asio::io_context context_{1};
    asio::executor_work_guard<asio::io_context::executor_type> guard_{context_.get_executor()};
};

const bench::add_peer registered{
    {.work = "post", .name = "asio", .run = bench::run_post<asio_loop>}};

}  // namespace
