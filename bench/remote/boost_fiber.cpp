// bench/remote/boost_fiber.cpp -- `remote` on Boost.Fiber.
//
// A fiber that an outside thread makes belongs to that thread.  The documented way to another one
// is a channel: on each worker a fiber takes tasks out of it and starts a fiber for each.  So no
// fiber changes its worker, and each worker has the default algorithm and its own pool, which
// needs no lock.  Each fiber starts at once (launch::dispatch): with launch::post it took 3 times
// as long and more.

#include "fibers/boost_fibers.hpp"
#include "remote/remote.hpp"

#include <deque>

#include <boost/fiber/buffered_channel.hpp>

namespace {

class boost_remote {
public:
    explicit boost_remote(std::size_t workers) {
        for (std::size_t i = 0; i < workers; ++i) {
            channels_.emplace_back(capacity);
        }
        for (auto& channel : channels_) {
            threads_.emplace_back([&channel] { serve(channel); });
        }
    }
    ~boost_remote() {
        for (auto& channel : channels_) {
            channel.close();
        }
    }
    boost_remote(const boost_remote&) = delete;
    boost_remote& operator=(const boost_remote&) = delete;

    void submit(bench::remote_task task) {
        channels_[next_].push(task);
        if (++next_ == channels_.size()) next_ = 0;
    }
    void submitted() {}

private:
    using channel_type = boost::fibers::buffered_channel<bench::remote_task>;
    static constexpr std::size_t capacity = 4096;

    static void serve(channel_type& channel) {
        bench::boost_stacks stacks(false);
        for (const bench::remote_task& task : channel) {
            boost::fibers::fiber(boost::fibers::launch::dispatch, std::allocator_arg, stacks, task)
                .detach();
        }
    }

    std::deque<channel_type> channels_;
    std::size_t next_ = 0;
    std::vector<std::jthread> threads_;
};

const bench::add_peer registered{
    {.work = "remote", .name = "boost-fiber", .run = bench::run_remote<boost_remote>}};

}  // namespace
