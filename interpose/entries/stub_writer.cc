#include "interpose/entries/stub_writer.h"

#include <string.h>

#include "interpose/entries/entry_calls.h"
#include "sampler/capture/added_code.h"
#include "sampler/entries/instruction.h"
#include "sampler/hot_path/sampled_filter.h"

namespace holdfast {
namespace {

using Flow = Instruction::Flow;

constexpr int kArgumentRegisters[] = {kRdi, kRsi, kRdx, kRcx};
// Condition codes, as in jcc.
constexpr uint8_t kOverflow = 0, kNotEqual = 5, kBelowOrEqual = 6;

constexpr uint8_t Low(int reg) { return static_cast<uint8_t>(reg & 7); }
constexpr uint8_t High(int reg) { return static_cast<uint8_t>(reg >> 3); }

class Writer {
 public:
  Writer(const EntryPlan& plan, const StubSettings& settings, uint8_t* page, size_t capacity, uintptr_t address,
         Stub* stubs, uintptr_t* short_jumps)
      : plan_(plan),
        settings_(settings),
        page_(page),
        capacity_(capacity),
        address_(address),
        stubs_(stubs),
        short_jumps_(short_jumps) {}

  WrittenStubs Run() {
    // The trampolines' addresses are needed in other stubs: lengths do not depend on them, so the second pass is right.
    for (int pass = 0; pass < 2; ++pass) {
      used_ = 0;
      piece_count_ = 0;
      failed_ = false;
      PutWord(settings_.slow_path);
      for (int i = 0; i < plan_.site_count; ++i) {
        if (plan_.IsChanged(i)) WriteSite(i);
      }
      for (int i = 0; i < plan_.short_jump_count; ++i) {
        short_jumps_[i] = here();
        PutMoved(plan_.short_jumps[i].range.start, plan_.short_jumps[i].range.end);
      }
      Align();
      // The second pass writes the pieces, for which the first one finds the place. Both make as many.
      pieces_at_ = used_;
      used_ += piece_count_ * sizeof(AddedPiece);
      failed_ = failed_ || used_ > capacity_;
      if (failed_) return {};
    }
    return {used_, pieces_at_, static_cast<uint32_t>(piece_count_)};
  }

 private:
  // ---- Bytes ----

  void Put(const void* bytes, size_t count) {
    if (used_ + count > capacity_) {
      failed_ = true;
      return;
    }
    memcpy(page_ + used_, bytes, count);
    used_ += count;
  }
  template <typename... Byte>
  void PutBytes(Byte... bytes) {
    const uint8_t all[] = {static_cast<uint8_t>(bytes)...};
    Put(all, sizeof all);
  }
  void PutInt(int32_t value) { Put(&value, sizeof value); }
  void PutWord(uint64_t value) { Put(&value, sizeof value); }
  void Align() {
    while (used_ % 16 != 0 && !failed_) PutBytes(0xcc);
  }
  uintptr_t here() const { return address_ + used_; }

  // The distance to `target` from the end of the 4 bytes and `after` more.
  void PutDistance(uintptr_t target, size_t after = 0) {
    const auto distance = static_cast<int64_t>(target - (here() + 4 + after));
    if (distance != static_cast<int32_t>(distance)) failed_ = true;
    PutInt(static_cast<int32_t>(distance));
  }
  void PutJump(uintptr_t target) {
    PutBytes(0xe9);
    PutDistance(target);
  }
  // Returns where the distance is, for Arrive.
  size_t PutForward(uint8_t condition) {
    PutBytes(0x0f, 0x80 | condition);
    PutInt(0);
    return used_;
  }
  void Arrive(size_t forward) {
    if (failed_ || forward == 0) return;
    const auto distance = static_cast<int32_t>(used_ - forward);
    memcpy(page_ + forward - sizeof distance, &distance, sizeof distance);
  }

  // What comes next is as if before this instruction of the executable.
  void Piece(uintptr_t instruction, uint32_t lower = 0) {
    const AddedPiece piece = {static_cast<uint32_t>(used_), lower, instruction};
    if (pieces_at_ != 0 && !failed_) memcpy(page_ + pieces_at_ + piece_count_ * sizeof piece, &piece, sizeof piece);
    ++piece_count_;
  }

  // ---- The hot part ----

  struct Slow {
    size_t charged = 0, uncharged = 0;
  };

  bool saves_ = false;    // the spare register is pushed
  uintptr_t origin_ = 0;  // the hot part: an instruction of the function
  int Spare(const EntrySite& site) {
    saves_ = site.spare < 0;
    return saves_ ? kRax : site.spare;
  }
  void SaveSpare() {
    if (!saves_) return;
    PutBytes(0x50);
    Piece(origin_, 8);
  }
  // Leaves the flags alone.
  void RestoreSpare() {
    if (!saves_) return;
    PutBytes(0x58);
    Piece(origin_);
  }

  // cmpb $0, filter(block / 1024): equal if no sample begins there
  size_t LookAtFilter(int block, int spare) {
    static_assert(kTagAlignment == 1 << 10);
    SaveSpare();
    if (High(block) != 0 || High(spare) != 0) PutBytes(0x40 | High(block) << 2 | High(spare));
    PutBytes(0x89, 0xc0 | Low(block) << 3 | Low(spare));  // mov block, spare: the low half
    if (High(spare) != 0) PutBytes(0x41);
    PutBytes(0xc1, 0xe8 | Low(spare), 10);  // shr
    if (High(spare) != 0) PutBytes(0x41);
    PutBytes(0x80, 0xb8 | Low(spare));
    if (Low(spare) == kRsp) PutBytes(0x24);
    PutInt(static_cast<int32_t>(settings_.filter));
    PutBytes(0);
    RestoreSpare();
    return PutForward(kNotEqual);
  }

  // Subtracts the size, and 1 for 0 bytes, from the countdown.
  void Charge(int size) {
    PutBytes(0x48 | High(size), 0x83, 0xf8 | Low(size), 1);                  // cmp $1, size
    PutBytes(0x64, 0x48 | High(size) << 2, 0x19, Low(size) << 3 | 4, 0x25);  // sbb size, %fs:countdown
    PutInt(settings_.countdown);
  }
  void ChargeUnlessZero(int size) {
    PutBytes(0x64, 0x48 | High(size) << 2, 0x29, Low(size) << 3 | 4, 0x25);  // sub
    PutInt(settings_.countdown);
  }

  // Leaves the product of two registers in the spare one. Returns the jump for an overflow.
  size_t Multiply(int size, int times, int spare) {
    PutBytes(0x48 | High(size) << 2 | High(spare), 0x89, 0xc0 | Low(size) << 3 | Low(spare));
    PutBytes(0x48 | High(spare) << 2 | High(times), 0x0f, 0xaf, 0xc0 | Low(spare) << 3 | Low(times));
    return PutForward(kOverflow);
  }

  void WriteHot(const EntrySite& site, Slow* slow) {
    const CallShape& shape = site.shape();
    const int size = shape.size >= 0 ? kArgumentRegisters[shape.size] : -1;
    const int block = shape.block >= 0 ? kArgumentRegisters[shape.block] : -1;
    const int spare = Spare(site);
    const bool allocates = shape.effect == Effect::kAllocates || shape.effect == Effect::kAllocatesInto;
    if (allocates && shape.times < 0) {
      Charge(size);
      slow->charged = PutForward(kBelowOrEqual);
    } else if (allocates && !saves_) {
      slow->uncharged = Multiply(size, kArgumentRegisters[shape.times], spare);
      Charge(spare);
      slow->charged = PutForward(kBelowOrEqual);
    } else if (shape.effect == Effect::kFrees && !settings_.asks_always) {
      slow->uncharged = LookAtFilter(block, spare);
    } else if (shape.effect == Effect::kReallocates && shape.times < 0 && !settings_.asks_always) {
      slow->uncharged = LookAtFilter(block, spare);
      ChargeUnlessZero(size);
      slow->charged = PutForward(kBelowOrEqual);
    } else {
      always_slow_ = true;
    }
  }

  // ---- The function's own instructions ----

  uintptr_t Redirected(uintptr_t target) const {
    const int site = plan_.ChangedSiteAt(target);
    return site >= 0 && stubs_[site].trampoline != 0 ? stubs_[site].trampoline : target;
  }

  // Pushes it, as a call there would. Leaves flags and registers alone.
  void PutReturnAddress(uintptr_t call, uintptr_t address) {
    PutBytes(0x48, 0x8d, 0x64, 0x24, 0xf8);  // lea -8(%rsp), %rsp
    Piece(call, 8);
    PutBytes(0xc7, 0x04, 0x24);  // movl $low, (%rsp)
    PutInt(static_cast<int32_t>(address));
    PutBytes(0xc7, 0x44, 0x24, 0x04);  // movl $high, 4(%rsp)
    PutInt(static_cast<int32_t>(address >> 32));
  }

  // Copies the instructions from `at` to `end`, and jumps there.
  void PutMoved(uintptr_t at, uintptr_t end) {
    const auto jumps = [](Flow flow) {
      return flow == Flow::kJump || flow == Flow::kReturn || flow == Flow::kIndirectJump;
    };
    while (at < end && !failed_) {
      Piece(at);
      const auto* code = reinterpret_cast<const uint8_t*>(at);
      const Instruction one = DecodeInstruction(code, 15);
      if (one.length == 0) {
        failed_ = true;
        return;
      }
      if (one.flow == Flow::kCall) {
        PutReturnAddress(at, at + one.length);
        return PutJump(Redirected(TargetOf(one, code, at)));
      }
      if (one.target_at >= 0) {
        const uintptr_t target = Redirected(TargetOf(one, code, at));
        if (one.flow == Flow::kJump) {
          PutBytes(0xe9);
        } else {
          PutBytes(0x0f, 0x80 | (one.opcode & 15));
        }
        PutDistance(target);
      } else if (one.relative_at >= 0) {
        int32_t distance;
        memcpy(&distance, code + one.relative_at, sizeof distance);
        const uintptr_t target = at + one.length + static_cast<uintptr_t>(int64_t{distance});
        const size_t after = one.length - static_cast<size_t>(one.relative_at) - 4;
        Put(code, static_cast<size_t>(one.relative_at));
        PutDistance(target, after);
        Put(code + one.relative_at + 4, after);
      } else {
        Put(code, one.length);
      }
      if (jumps(one.flow)) return;
      at += one.length;
    }
    Piece(end);
    PutJump(end);
  }

  // Undoes the first instruction before it runs a second time.
  void PutUndo(const EntrySite& site) {
    if (site.kept.pushed >= 0) {
      if (High(site.kept.pushed) != 0) PutBytes(0x41);
      PutBytes(0x58 | Low(site.kept.pushed));
    } else if (site.kept.stack_bytes != 0) {
      PutBytes(0x48, 0x8d, 0xa4, 0x24);  // lea bytes(%rsp), %rsp
      PutInt(site.kept.stack_bytes);
    } else if (site.kept.added_to >= 0) {
      const int reg = site.kept.added_to;
      PutBytes(0x48 | High(reg) << 2 | High(reg), 0x8d, 0x80 | Low(reg) << 3 | Low(reg));  // lea -added(reg), reg
      if (Low(reg) == kRsp) PutBytes(0x24);
      PutInt(-site.kept.added);
    } else if (site.kept.swapped >= 0) {
      const int one = site.kept.swapped, other = site.kept.swapped_with;
      PutBytes(0x48 | High(one) << 2 | High(other), 0x87, 0xc0 | Low(one) << 3 | Low(other));  // xchg one, other
    }
  }

  void PutSlow(const EntrySite& site, uint64_t number) {
    Piece(origin_);
    if (!site.kept.undone_at_once) PutUndo(site);
    Piece(site.first);
    PutBytes(0x68);
    PutInt(static_cast<int32_t>(number));
    Piece(site.first, 8);
    PutBytes(0xff, 0x25);  // jmp *word(%rip): the first word of the page
    PutDistance(address_);
  }

  void WriteSite(int number) {
    const EntrySite& site = plan_.sites[number];
    const uintptr_t end = site.jump + site.moved;
    Align();
    if (site.is_short_jump) {
      // The low byte of the jump's distance stays as well.
      const uint8_t low = reinterpret_cast<const uint8_t*>(site.jump)[1];
      while (static_cast<uint8_t>(here() - (site.jump + 5)) != low && !failed_) PutBytes(0xcc);
    }
    stubs_[number].hot = here();
    Slow slow;
    always_slow_ = false;
    Piece(site.jump);
    if (site.kept.undone_at_once) PutUndo(site);
    origin_ = site.kept.undone_at_once ? site.first : site.jump;
    Piece(origin_);
    WriteHot(site, &slow);
    if (!always_slow_) {
      if (site.runs_again && !site.kept.undone_at_once) PutUndo(site);
      PutMoved(site.runs_again ? site.first : site.jump, end);
    }
    const auto at = static_cast<uint64_t>(number) << 1;
    if (slow.charged != 0) {
      Arrive(slow.charged);
      PutSlow(site, at | kWasCharged);
    }
    if (slow.uncharged != 0 || always_slow_) {
      Arrive(slow.uncharged);
      PutSlow(site, at);
    }
    Align();
    stubs_[number].trampoline = here();
    PutMoved(site.first, end);
  }

  const EntryPlan& plan_;
  const StubSettings& settings_;
  uint8_t* const page_;
  const size_t capacity_;
  const uintptr_t address_;
  Stub* const stubs_;
  uintptr_t* const short_jumps_;
  size_t used_ = 0, pieces_at_ = 0, piece_count_ = 0;
  bool failed_ = false, always_slow_ = false;
};

}  // namespace

WrittenStubs WriteStubs(const EntryPlan& plan, const StubSettings& settings, uint8_t* page, size_t capacity,
                        uintptr_t address, Stub* stubs, uintptr_t* short_jumps) {
  return Writer(plan, settings, page, capacity, address, stubs, short_jumps).Run();
}

}  // namespace holdfast
