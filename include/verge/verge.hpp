// verge/verge.hpp -- everything, for small programs.  Libraries should include what they use.

#pragma once

#include <verge/base/callback.hpp>
#include <verge/base/clock.hpp>
#include <verge/base/histogram.hpp>
#include <verge/base/manual_clock.hpp>
#include <verge/base/parker.hpp>
#include <verge/base/stats.hpp>
#include <verge/base/timer_id.hpp>
#include <verge/driver/reactor.hpp>
#include <verge/driver/scoped_timer.hpp>
#include <verge/driver/timer_service.hpp>
#include <verge/driver/timer_thread.hpp>
#include <verge/io/any_io_executor.hpp>
#include <verge/io/associated.hpp>
#include <verge/io/async_result.hpp>
#include <verge/io/execution.hpp>
#include <verge/io/execution_context.hpp>
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/post.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/thread_pool.hpp>
#include <verge/queue/local_timers.hpp>
#include <verge/queue/periodic.hpp>
#include <verge/queue/tick.hpp>
#include <verge/queue/timer_heap.hpp>
#include <verge/queue/timer_queue.hpp>
#include <verge/queue/timing_wheel.hpp>
