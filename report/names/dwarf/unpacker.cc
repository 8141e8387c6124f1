#include "report/names/dwarf/unpacker.h"

#include <libdeflate.h>
#include <zlib.h>
#include <zstd.h>

namespace holdfast::dwarf {
namespace {

constexpr int kMaxWindow = 27;  // 128 MiB; a hostile frame could request more

class Zlib : public Unpacker {
 public:
  Zlib() : made_(inflateInit(&stream_) == Z_OK) {}
  Zlib(const Zlib&) = delete;
  Zlib& operator=(const Zlib&) = delete;
  ~Zlib() override {
    if (made_) inflateEnd(&stream_);
  }
  bool is_made() const { return made_; }

  std::optional<Step> Next(std::string_view packed, std::string* to) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    stream_.next_out = reinterpret_cast<Bytef*>(to->data());
    stream_.avail_out = static_cast<uInt>(to->size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) return std::nullopt;
    return Step{packed.size() - stream_.avail_in, to->size() - stream_.avail_out, result == Z_STREAM_END};
  }

 private:
  z_stream stream_ = {};
  const bool made_;
};

class Zstd : public Unpacker {
 public:
  Zstd() : stream_(ZSTD_createDStream()) {
    if (stream_ != nullptr) ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kMaxWindow);
  }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;
  ~Zstd() override { ZSTD_freeDStream(stream_); }
  bool is_made() const { return stream_ != nullptr; }

  std::optional<Step> Next(std::string_view packed, std::string* to) override {
    ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
    ZSTD_outBuffer out = {to->data(), to->size(), 0};
    const size_t left = ZSTD_decompressStream(stream_, &out, &in);
    if (ZSTD_isError(left) != 0) return std::nullopt;
    return Step{in.pos, out.pos, left == 0};
  }

 private:
  ZSTD_DStream* const stream_;
};

template <typename T>
std::unique_ptr<Unpacker> Made() {
  auto unpacker = std::make_unique<T>();
  return unpacker->is_made() ? std::move(unpacker) : nullptr;
}

}  // namespace

std::unique_ptr<Unpacker> MakeUnpacker(Compression method) {
  return method == Compression::kZlib ? Made<Zlib>() : Made<Zstd>();
}

std::optional<std::string> UnpackZlib(std::string_view packed, size_t size) {
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (decompressor == nullptr) return std::nullopt;
  std::string bytes(size, '\0');
  size_t taken = 0;
  const libdeflate_result result = libdeflate_zlib_decompress_ex(decompressor.get(), packed.data(), packed.size(),
                                                                 bytes.data(), bytes.size(), &taken, nullptr);
  if (result != LIBDEFLATE_SUCCESS) return std::nullopt;
  return bytes;
}

}  // namespace holdfast::dwarf
