#include "io/torch_file.h"

#include <lockstep/tensor/creation.h>

#include "io/pickle.h"
#include "io/safetensors_header.h"
#include "io/tensor_bytes.h"
#include "io/zip_archive.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep::torch_file {
namespace {

using safetensors::shown;

constexpr std::string_view kPickle = "/data.pkl";

// Returns the folder in the archive that contains all entries.
std::string folder_of(const ByteSource& source, const ZipArchive& archive) {
  for (const ZipArchive::Entry& entry : archive.entries())
    if (entry.name.ends_with(kPickle) && entry.name.find('/') == entry.name.size() - kPickle.size())
      return entry.name.substr(0, entry.name.size() - kPickle.size() + 1);
  source.fail(0, "expected a file of torch.save, got a zip file without data.pkl");
}

struct Opened {
  ZipArchive archive;
  std::string folder;
  State state;
};

Opened open(ByteSource& source, bool verify) {
  if (!is_zip(source))
    source.fail(0,
                "expected a zip file, got the form that PyTorch wrote before 1.6: load it in PyTorch 1.6 or "
                "newer and save it again");
  ZipArchive archive(source);
  const std::string folder = folder_of(source, archive);
  if (archive.find(folder + "constants.pkl"))
    source.fail(0,
                "expected a file of torch.save, got TorchScript (torch.jit.save): save its state_dict() with "
                "torch.save");
  if (const ZipArchive::Entry* order = archive.find(folder + "byteorder"))
    if (const std::string got = archive.read_text(*order, 16, verify); got != "little")
      source.fail(order->begin, "expected the byte order little, got ", shown(got));
  const ZipArchive::Entry& entry = *archive.find(folder + std::string(kPickle.substr(1)));
  const std::string pickle = archive.read_text(entry, pickle::kMaxBytes, verify);
  State state = parse_state(source.name(), pickle, entry.begin);
  return {std::move(archive), folder, std::move(state)};
}

Tensor read_storage(ByteSource& source, Opened& file, const StorageEntry& storage, const ReadOptions& options) {
  const ZipArchive::Entry* entry = file.archive.find(file.folder + "data/" + storage.key);
  if (!entry) source.fail(storage.noticed_at, "expected data of storage ", shown(storage.key), ", got none");
  const std::size_t element_bytes = size_of(storage.dtype);
  if (entry->bytes % element_bytes != 0 || entry->bytes / element_bytes != storage.elements)
    source.fail(entry->header, "expected ", storage.elements, " elements of ", storage.dtype, " in storage ",
                shown(storage.key), ", got ", entry->bytes, " bytes");
  DeviceState &cpu = device_state(Device()), &target = device_state(options.device);
  const Tensor host = make_tensor(cpu, {std::int64_t(storage.elements)}, storage.dtype);
  std::byte* const data = host.impl()->data();
  file.archive.read(*entry, data, options.verify);
  if (storage.dtype == kBool) check_bools(source, entry->begin, data, entry->bytes, "bool");
  return &target == &cpu ? host : copied(host, target, storage.dtype);
}

struct MakeTensor {
  const std::vector<Tensor>& storages;
  Device device;

  Tensor operator()(const TensorEntry& entry) const {
    return make_view(storages[entry.storage], entry.sizes, entry.strides, entry.offset);
  }
  template <class T>
  Tensor operator()(T number) const {
    return from_host(&number, 1, kDTypeOf<T>, {}, {.dtype = kDTypeOf<T>, .device = device});
  }
};

}  // namespace

bool is_torch_file(ByteSource& source) {
  if (is_zip(source)) return true;
  // A file before PyTorch 1.6 begins with a pickled magic number: protocol 2, LONG1 of ten bytes.
  return source.size() >= 9 && source.begins_with("\x80\x02\x8a\x0a");
}

safetensors::Contents read(ByteSource& source, const ReadOptions& options) {
  Opened file = open(source, options.verify);
  std::vector<Tensor> storages;
  for (const StorageEntry& storage : file.state.storages)
    storages.push_back(read_storage(source, file, storage, options));
  StateDict tensors;
  const MakeTensor made{storages, options.device};
  for (Entry& entry : file.state.entries) tensors.add(std::move(entry.name), std::visit(made, entry.value));
  file.state.skipped.report("load", source.name(), options);
  return {std::move(tensors), std::move(file.state.texts)};
}

FileMetadata read_metadata(ByteSource& source, const ReadOptions& options) {
  return open(source, options.verify).state.texts;
}

}  // namespace lockstep::torch_file
