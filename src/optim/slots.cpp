#include <algorithm>
#include <tuple>

#include "optim/optimizer_impl.h"

namespace lockstep::optim {
namespace {

// Requests that share an array.
auto array_of(const SlotRequest& request) {
  const TensorImpl& like = *request.like->impl();
  return std::tuple(like.storage->device->device, state_dtype(like.dtype), request.slot, request.initial);
}

void make_array(std::span<const SlotRequest> requests) {
  std::int64_t elements = 0;
  for (const SlotRequest& request : requests) elements += request.like->numel();
  const TensorImpl& like = *requests.front().like->impl();
  Tensor all = make_tensor(*like.storage->device, {elements}, state_dtype(like.dtype));
  if (elements > 0) all.fill_(requests.front().initial);
  std::int64_t offset = 0;
  for (const SlotRequest& request : requests) {
    const Shape& sizes = request.like->sizes();
    *request.into = make_view(all, sizes, contiguous_strides(sizes), offset);
    offset += request.like->numel();
  }
}

}  // namespace

void make_slots(std::vector<SlotRequest> requests) {
  std::sort(requests.begin(), requests.end(), [](const SlotRequest& a, const SlotRequest& b) {
    return std::tuple(array_of(a), a.like->impl()->data()) < std::tuple(array_of(b), b.like->impl()->data());
  });
  for (auto begin = requests.begin(); begin != requests.end();) {
    const auto end =
        std::find_if(begin, requests.end(), [&](const auto& r) { return array_of(r) != array_of(*begin); });
    make_array(std::span(begin, end));
    begin = end;
  }
}

}  // namespace lockstep::optim
