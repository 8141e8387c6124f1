// Programs with a known truth, as `holdfast leaks` has to judge them: how each allocates and frees over its time, from 0 to 1.
// Two kinds of world run them: a model of the sampler (tests/unit/leak_shapes_test.cc), and a real program (tests/programs/leak_shapes.cc).
// A shape is given how many bytes to leak, or to hold, and how many bytes a block has.
#ifndef HOLDFAST_TESTS_SUPPORT_LEAK_SHAPES_H_
#define HOLDFAST_TESTS_SUPPORT_LEAK_SHAPES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace holdfast::testing {

// Which function allocates. From kHealthy on: one of 200 functions that do not leak.
enum Who : int { kLeaker = 0, kTable, kCache, kSession, kScratch, kReserve, kHealthy };
inline constexpr int kHealthyFunctions = 200;

using Handle = uint64_t;

class World {
 public:
  virtual ~World() = default;
  virtual Handle Alloc(int who, size_t bytes) = 0;
  virtual void Free(Handle block) = 0;
  // Moves the time on; the world may take a snapshot.
  virtual void Tick(double time) = 0;
};

struct Shape {
  const char* name;
  bool leaks;
  // `bytes`: what leaks, or what a healthy program holds at most.
  std::function<void(World& world, std::mt19937_64& random, double bytes, size_t block)> run;
};

namespace shapes {

inline constexpr int kTicks = 600;
inline double TimeOf(int tick) { return static_cast<double>(tick + 1) / kTicks; }

// Allocates up to a course: what shall have been allocated until now.
class Paced {
 public:
  explicit Paced(size_t block) : block_(block) {}
  template <typename Take>
  void UpTo(double bytes, Take take) {
    for (; done_ + static_cast<double>(block_) <= bytes; done_ += static_cast<double>(block_)) take(block_);
  }

 private:
  size_t block_;
  double done_ = 0;
};

// Some traffic that is freed at once: `bytes` a tick.
inline void Traffic(World& world, double bytes, size_t block = 4096, int who = kScratch) {
  for (double done = 0; done < bytes; done += static_cast<double>(block)) world.Free(world.Alloc(who, block));
}
inline void Hold(World& world, double bytes, size_t block, int who = kTable) {
  for (double done = 0; done < bytes; done += static_cast<double>(block)) world.Alloc(who, block);
}

// A leak that follows a course from 0 to 1, with `traffic` bytes in each tick, and more by `beside`.
using CourseOf = std::function<double(double time)>;
using Beside = std::function<void(World& world, std::mt19937_64& random, double time, double bytes, size_t block)>;
inline auto Leak(CourseOf course, Beside beside = {}, Beside before = {}) {
  return [=](World& world, std::mt19937_64& random, double bytes, size_t block) {
    if (before) before(world, random, 0, bytes, block);
    world.Tick(0);
    Paced paced(block);
    for (int tick = 0; tick < kTicks; ++tick) {
      paced.UpTo(bytes * course(TimeOf(tick)), [&](size_t size) { world.Alloc(kLeaker, size); });
      if (beside) beside(world, random, TimeOf(tick), bytes, block);
      world.Tick(TimeOf(tick));
    }
  };
}

inline double Linear(double t) { return t; }
// `bursts` of equal length, each followed by a pause of `pause` times its length.
inline CourseOf Bursts(int bursts, double pause) {
  return [=](double t) {
    const double cycle = t * bursts, part = cycle - std::floor(cycle);
    return std::min(1.0, (std::floor(cycle) + std::min(1.0, part * (1 + pause))) / bursts);
  };
}
inline bool InBurst(double t, int bursts, double pause) {
  const double cycle = t * bursts;
  return cycle - std::floor(cycle) < 1 / (1 + pause);
}

// Blocks in slots that are replaced at random.
class Slots {
 public:
  Slots(size_t count, size_t block, int who) : slots_(count), block_(block), who_(who) {}
  void Replace(World& world, size_t at) {
    if (slots_[at] != 0) world.Free(slots_[at]);
    slots_[at] = world.Alloc(who_, block_);
  }
  void Clear(World& world, size_t at) {
    if (slots_[at] != 0) world.Free(slots_[at]);
    slots_[at] = 0;
  }
  bool Has(size_t at) const { return slots_[at] != 0; }
  size_t size() const { return slots_.size(); }

 private:
  std::vector<Handle> slots_;
  size_t block_;
  int who_;
};

inline size_t CountOf(double bytes, size_t block) {
  return std::max<size_t>(4, static_cast<size_t>(bytes / static_cast<double>(block)));
}

// A healthy program: each tick, with state that lives over the ticks.
template <typename State>
auto Healthy(std::function<State(World&, std::mt19937_64&, double bytes, size_t block)> make,
             std::function<void(State&, World&, std::mt19937_64&, int tick)> step) {
  return [=](World& world, std::mt19937_64& random, double bytes, size_t block) {
    State state = make(world, random, bytes, block);
    world.Tick(0);
    for (int tick = 0; tick < kTicks; ++tick) {
      step(state, world, random, tick);
      world.Tick(TimeOf(tick));
    }
  };
}

struct Queue {
  std::deque<Handle> blocks;
  size_t most = 0, block = 0;
  double level = 0, goal = 0;
};
inline Queue MakeQueue(World&, std::mt19937_64&, double bytes, size_t block) {
  Queue queue;
  queue.most = CountOf(bytes, block);
  queue.block = block;
  return queue;
}
inline void Push(Queue& queue, World& world, int who) { queue.blocks.push_back(world.Alloc(who, queue.block)); }
inline void Pop(Queue& queue, World& world) {
  if (queue.blocks.empty()) return;
  world.Free(queue.blocks.front());
  queue.blocks.pop_front();
}
inline void ResizeTo(Queue& queue, World& world, int who, double share) {
  const auto goal = static_cast<size_t>(share * static_cast<double>(queue.most));
  while (queue.blocks.size() < goal) Push(queue, world, who);
  while (queue.blocks.size() > goal) Pop(queue, world);
}
// A queue with a length that follows a course; each tick replaces a share of it.
inline auto QueueOf(std::function<double(double time, Queue& queue, std::mt19937_64& random)> course, double turnover,
                    double traffic = 20000) {
  return Healthy<Queue>(MakeQueue, [=](Queue& queue, World& world, std::mt19937_64& random, int tick) {
    ResizeTo(queue, world, kSession, course(TimeOf(tick), queue, random));
    const auto replaced = static_cast<size_t>(turnover * static_cast<double>(queue.blocks.size()));
    for (size_t i = 0; i < replaced; ++i) Pop(queue, world), Push(queue, world, kSession);
    Traffic(world, traffic);
  });
}

inline double Uniform(std::mt19937_64& random) { return std::uniform_real_distribution<double>()(random); }

}  // namespace shapes

inline const std::vector<Shape>& LeakShapes() {
  using namespace shapes;
  constexpr double kPi = 3.14159265358979;
  static const std::vector<Shape>* all = new std::vector<Shape>{
      // ---- leaks ----
      {"linear", true, Leak(Linear)},
      {"linear-beside-traffic", true, Leak(Linear, [](World& w, auto&, double, double, size_t) { Traffic(w, 40000); })},
      {"bursts-4", true, Leak(Bursts(4, 2))},
      {"bursts-7", true, Leak(Bursts(7, 3))},
      {"bursts-beside-traffic", true,
       Leak(Bursts(5, 2), [](World& w, auto&, double, double, size_t) { Traffic(w, 40000); })},
      {"day-and-night", true,
       Leak(Bursts(3, 1), [](World& w, auto&, double t, double, size_t) { Traffic(w, InBurst(t, 3, 1) ? 60000 : 500); })},
      {"day-and-quiet-night", true,
       Leak(Bursts(4, 1), [](World& w, auto&, double t, double, size_t) { Traffic(w, InBurst(t, 4, 1) ? 60000 : 0); })},
      {"warm-up-then-leak", true,
       Leak([](double t) { return t; },
            [](World& w, auto&, double t, double bytes, size_t block) {
              if (t < 0.1) Hold(w, bytes / 20, block);
            })},
      {"one-in-twenty-is-kept", true,
       [](World& world, std::mt19937_64&, double bytes, size_t block) {
         Paced paced(block);
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           paced.UpTo(bytes * TimeOf(tick), [&](size_t size) {
             for (int i = 0; i < 19; ++i) world.Free(world.Alloc(kLeaker, size));
             world.Alloc(kLeaker, size);
           });
           world.Tick(TimeOf(tick));
         }
       }},
      {"vector-that-doubles", true,
       [](World& world, std::mt19937_64&, double bytes, size_t block) {
         double capacity = bytes / 64;
         Handle vector = world.Alloc(kLeaker, static_cast<size_t>(capacity));
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           if (bytes * TimeOf(tick) * 1.3 > capacity) {
             capacity *= 2;
             const Handle grown = world.Alloc(kLeaker, static_cast<size_t>(capacity));
             world.Free(vector);
             vector = grown;
           }
           Traffic(world, 10 * static_cast<double>(block), block);
           world.Tick(TimeOf(tick));
         }
       }},
      {"realloc-chain", true,
       [](World& world, std::mt19937_64&, double bytes, size_t) {
         Handle buffer = 0;
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           const Handle grown = world.Alloc(kLeaker, static_cast<size_t>(bytes * TimeOf(tick)) + 1);
           if (buffer != 0) world.Free(buffer);
           buffer = grown;
           world.Tick(TimeOf(tick));
         }
       }},
      {"pool-of-large-chunks", true,
       [](World& world, std::mt19937_64&, double bytes, size_t) {
         Paced paced(65536);
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           paced.UpTo(bytes * TimeOf(tick), [&](size_t size) { world.Alloc(kLeaker, size); });
           Traffic(world, 20000);
           world.Tick(TimeOf(tick));
         }
       }},
      {"begins-at-half-time", true,
       Leak([](double t) { return std::max(0.0, 2 * t - 1); },
            [](World& w, auto&, double, double, size_t) { Traffic(w, 40000); })},
      {"beside-a-saw-tooth", true,
       [](World& world, std::mt19937_64& random, double bytes, size_t block) {
         Paced paced(block);
         Queue queue = MakeQueue(world, random, bytes / 2, block);
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           const double t = TimeOf(tick);
           paced.UpTo(bytes * t, [&](size_t size) { world.Alloc(kLeaker, size); });
           ResizeTo(queue, world, kSession, t * 9 - std::floor(t * 9));
           world.Tick(t);
         }
       }},
      {"under-a-saw-tooth", true,
       [](World& world, std::mt19937_64& random, double bytes, size_t block) {
         Paced paced(block);
         Queue queue = MakeQueue(world, random, bytes / 4, block);
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           const double t = TimeOf(tick);
           paced.UpTo(bytes * t, [&](size_t size) { world.Alloc(kLeaker, size); });
           ResizeTo(queue, world, kLeaker, t * 12 - std::floor(t * 12));
           world.Tick(t);
         }
       }},
      {"behind-a-large-table", true,
       Leak(Linear, [](World& w, auto&, double, double, size_t) { Traffic(w, 40000); },
            [](World& w, auto&, double, double bytes, size_t block) { Hold(w, 8 * bytes, 16 * block); })},
      {"beside-200-healthy-functions", true,
       [](World& world, std::mt19937_64& random, double bytes, size_t block) {
         std::vector<Slots> slots;
         for (int i = 0; i < kHealthyFunctions; ++i) {
           slots.emplace_back(20, block, kHealthy + i);
           for (size_t at = 0; at < 20; ++at) slots.back().Replace(world, at);
         }
         Paced paced(block);
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           paced.UpTo(bytes * TimeOf(tick), [&](size_t size) { world.Alloc(kLeaker, size); });
           for (Slots& each : slots) each.Replace(world, random() % each.size());
           world.Tick(TimeOf(tick));
         }
       }},
      {"at-random", true,
       [](World& world, std::mt19937_64& random, double bytes, size_t block) {
         const double mean = bytes / static_cast<double>(block) / kTicks;
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           for (int i = std::poisson_distribution<int>(mean)(random); i > 0; --i) world.Alloc(kLeaker, block);
           Traffic(world, 20000);
           world.Tick(TimeOf(tick));
         }
       }},
      {"accelerates", true, Leak([](double t) { return t * t; })},
      {"sessions-that-leave-a-block", true,
       [](World& world, std::mt19937_64&, double bytes, size_t block) {
         std::deque<std::vector<Handle>> sessions;
         Paced paced(block);
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           paced.UpTo(bytes * TimeOf(tick), [&](size_t size) {
             world.Alloc(kLeaker, size);
             sessions.emplace_back();
             for (int i = 0; i < 6; ++i) sessions.back().push_back(world.Alloc(kSession, size));
           });
           while (sessions.size() > 3) {
             for (const Handle each : sessions.front()) world.Free(each);
             sessions.pop_front();
           }
           world.Tick(TimeOf(tick));
         }
       }},
      {"a-block-a-minute", true,
       [](World& world, std::mt19937_64&, double, size_t block) {
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           if (tick % 20 == 10) world.Alloc(kLeaker, block);
           Traffic(world, 40000);
           world.Tick(TimeOf(tick));
         }
       }},
      {"steps-of-a-pool", true,
       [](World& world, std::mt19937_64&, double bytes, size_t block) {
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           if (tick % 75 == 40) Hold(world, bytes / 8, block, kLeaker);
           Traffic(world, 40000);
           world.Tick(TimeOf(tick));
         }
       }},
      // ---- healthy ----
      {"constant", false,
       [](World& world, std::mt19937_64&, double bytes, size_t block) {
         Hold(world, bytes, block);
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) Traffic(world, 40000), world.Tick(TimeOf(tick));
       }},
      {"warm-up-then-flat", false,
       [](World& world, std::mt19937_64&, double bytes, size_t block) {
         Paced paced(block);
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           paced.UpTo(bytes * std::min(1.0, 4 * TimeOf(tick)), [&](size_t size) { world.Alloc(kTable, size); });
           Traffic(world, 40000);
           world.Tick(TimeOf(tick));
         }
       }},
      {"cache-that-fills-up", false,
       Healthy<Slots>([](World&, std::mt19937_64&, double bytes, size_t block) { return Slots(CountOf(bytes, block), block, kCache); },
                      [](Slots& slots, World& world, std::mt19937_64& random, int) {
                        for (size_t i = 0; i < 1 + slots.size() * 5 / kTicks; ++i) {
                          const size_t at = random() % slots.size();
                          if (!slots.Has(at)) slots.Replace(world, at);
                        }
                        Traffic(world, 20000);
                      })},
      {"cache-that-warms-up-and-is-turned-over", false,
       Healthy<Slots>([](World&, std::mt19937_64&, double bytes, size_t block) { return Slots(CountOf(bytes, block), block, kCache); },
                      [](Slots& slots, World& world, std::mt19937_64& random, int) {
                        for (size_t i = 0; i < 1 + slots.size() * 5 / kTicks; ++i) slots.Replace(world, random() % slots.size());
                        Traffic(world, 20000);
                      })},
      {"cache-that-fills-logarithmically", false,
       [](World& world, std::mt19937_64&, double bytes, size_t block) {
         Paced paced(block);
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           paced.UpTo(bytes * std::log1p(20 * TimeOf(tick)) / std::log1p(20.0), [&](size_t size) { world.Alloc(kCache, size); });
           Traffic(world, 20000);
           world.Tick(TimeOf(tick));
         }
       }},
      {"lru-that-is-full", false,
       Healthy<Slots>(
           [](World& world, std::mt19937_64&, double bytes, size_t block) {
             Slots slots(CountOf(bytes, block), block, kCache);
             for (size_t at = 0; at < slots.size(); ++at) slots.Replace(world, at);
             return slots;
           },
           [](Slots& slots, World& world, std::mt19937_64& random, int) {
             for (size_t i = 0; i < 1 + slots.size() / 100; ++i) slots.Replace(world, random() % slots.size());
           })},
      {"lru-full-at-40-percent", false,
       Healthy<Queue>(MakeQueue,
                      [](Queue& queue, World& world, std::mt19937_64&, int) {
                        for (size_t i = 0; i < 1 + queue.most / (kTicks * 4 / 10); ++i) {
                          if (queue.blocks.size() >= queue.most) Pop(queue, world);
                          Push(queue, world, kCache);
                        }
                      })},
      {"ring-full-at-60-percent", false,
       Healthy<Queue>(MakeQueue,
                      [](Queue& queue, World& world, std::mt19937_64&, int) {
                        for (size_t i = 0; i < 1 + queue.most / (kTicks * 6 / 10); ++i) {
                          if (queue.blocks.size() >= queue.most) Pop(queue, world);
                          Push(queue, world, kCache);
                        }
                        Traffic(world, 20000);
                      })},
      {"saw-tooth", false, QueueOf([](double t, Queue&, auto&) { return t * 11 - std::floor(t * 11); }, 0)},
      {"saw-tooth-of-two-periods", false,
       QueueOf([](double t, Queue&, auto&) { return (t * 7 - std::floor(t * 7) + 0.4 * (t * 31 - std::floor(t * 31))) / 1.4; }, 0)},
      {"collector-of-five-cycles", false, QueueOf([](double t, Queue&, auto&) { return 0.3 + 0.7 * (t * 5.3 - std::floor(t * 5.3)); }, 0)},
      {"collector-at-random", false,
       QueueOf(
           [](double, Queue& queue, auto& random) {
             queue.level += 1.0 / 60;
             if (queue.level > queue.goal || queue.goal == 0) queue.level = 0.2, queue.goal = 0.6 + 0.4 * Uniform(random);
             return queue.level;
           },
           0)},
      {"sessions-at-random", false,
       QueueOf(
           [](double, Queue& queue, auto& random) {
             queue.level += 0.08 * (0.5 - queue.level) + 0.06 * (Uniform(random) - 0.5);
             return std::clamp(queue.level, 0.0, 1.0);
           },
           0.1)},
      {"sessions-of-three-days", false,
       QueueOf([](double t, Queue&, auto&) { return 0.5 - 0.45 * std::cos(2 * kPi * 3 * t); }, 0.1)},
      {"load-that-rises-for-now", false, QueueOf([](double t, Queue&, auto&) { return 0.2 + 0.7 * t; }, 0.1)},
      {"batch-at-half-time", false, QueueOf([](double t, Queue&, auto&) { return t < 0.5 ? 0.2 : 1.0; }, 0)},
      {"table-rebuilt-again-and-again", false,
       QueueOf([](double t, Queue&, auto&) { return t * 10 - std::floor(t * 10) > 0.9 ? 1.0 : 0.5; }, 0)},
      {"spikes", false,
       QueueOf([](double, Queue&, auto& random) { return Uniform(random) < 0.03 ? 1.0 : 0.1; }, 0)},
      {"arena-reset-after-each-request", false, QueueOf([](double t, Queue&, auto&) { return t * 150 - std::floor(t * 150); }, 0)},
      {"start-up-then-idle", false,
       [](World& world, std::mt19937_64&, double bytes, size_t block) {
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           if (tick < kTicks / 20) Hold(world, bytes / (kTicks / 20), block);
           world.Tick(TimeOf(tick));
         }
       }},
      {"200-healthy-functions", false,
       [](World& world, std::mt19937_64& random, double, size_t block) {
         std::vector<Slots> slots;
         for (int i = 0; i < kHealthyFunctions; ++i) {
           slots.emplace_back(40, block, kHealthy + i);
           for (size_t at = 0; at < 40; ++at) slots.back().Replace(world, at);
         }
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           for (Slots& each : slots) {
             const size_t at = random() % each.size();
             random() % 2 == 0 ? each.Replace(world, at) : each.Clear(world, at);
           }
           world.Tick(TimeOf(tick));
         }
       }},
      {"two-caches-take-turns", false,
       [](World& world, std::mt19937_64& random, double bytes, size_t block) {
         Queue one = MakeQueue(world, random, bytes, block), other = one;
         world.Tick(0);
         for (int tick = 0; tick < kTicks; ++tick) {
           const double wave = 0.5 - 0.5 * std::cos(2 * kPi * 2.5 * TimeOf(tick));
           ResizeTo(one, world, kCache, wave);
           ResizeTo(other, world, kSession, 1 - wave);
           Traffic(world, 20000);
           world.Tick(TimeOf(tick));
         }
       }},
  };
  return *all;
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_LEAK_SHAPES_H_
