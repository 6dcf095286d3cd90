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
#include <verge/queue/local_timers.hpp>
#include <verge/queue/periodic.hpp>
#include <verge/queue/tick.hpp>
#include <verge/queue/timer_heap.hpp>
#include <verge/queue/timer_queue.hpp>
#include <verge/queue/timing_wheel.hpp>
