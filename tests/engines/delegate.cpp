// An external delegate of LiteRT that takes over LOGISTIC on float32, and nothing else.
// With -DFAULT it computes a hard sigmoid instead; with -DCLAIMS_NOTHING it takes over no operator.
//
// The wheel has no headers: these are the parts of LiteRT's C structures (stable since TensorFlow Lite 2.4) that a
// delegate touches, in their order.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

enum Status { kOk = 0, kError = 1 };
constexpr int kFloat32 = 1;
constexpr int kLogistic = 14;

struct IntArray {
  int size;
  int data[];
};

struct Context;
struct Delegate;

struct Tensor {
  int type;
  void* data;
  IntArray* dims;
  float scale;
  int32_t zero_point;
  int allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  Delegate* delegate;
  int buffer_handle;
  bool data_is_stale;
  bool is_variable;
  int quantization_type;
  void* quantization_params;
  void* sparsity;
  const IntArray* dims_signature;
};
static_assert(sizeof(Tensor) == 112, "as LiteRT lays it out");

struct Node {
  IntArray* inputs;
  IntArray* outputs;
  IntArray* intermediates;
  IntArray* temporaries;
  void* user_data;
};

struct Registration {
  void* (*init)(Context*, const char*, size_t);
  void (*free)(Context*, void*);
  Status (*prepare)(Context*, Node*);
  Status (*invoke)(Context*, Node*);
  const char* (*profiling_string)(const Context*, const Node*);
  int32_t builtin_code;
  const char* custom_name;
  int version;
  void* registration_external;
  void* async_kernel;
  uint64_t inplace_operator;
};

struct Context {
  size_t tensors_size;
  Status (*GetExecutionPlan)(Context*, IntArray**);
  Tensor* tensors;
  void* impl;
  Status (*ResizeTensor)(Context*, Tensor*, IntArray*);
  void (*ReportError)(Context*, const char*, ...);
  Status (*AddTensors)(Context*, int, int*);
  Status (*GetNodeAndRegistration)(Context*, int, Node**, Registration**);
  Status (*ReplaceNodeSubsetsWithDelegateKernels)(Context*, Registration, const IntArray*, Delegate*);
};

struct Delegate {
  void* data;
  Status (*Prepare)(Context*, Delegate*);
  Status (*CopyFromBufferHandle)(Context*, Delegate*, int, Tensor*);
  Status (*CopyToBufferHandle)(Context*, Delegate*, int, Tensor*);
  void (*FreeBufferHandle)(Context*, Delegate*, int*);
  int64_t flags;
  void* opaque_delegate_builder;
};

struct DelegateParams {
  Delegate* delegate;
  IntArray* nodes_to_replace;
  IntArray* input_tensors;
  IntArray* output_tensors;
};

static Tensor* tensor_at(Context* context, int index) {
  return context->tensors + index;
}

static size_t elements(const Tensor* tensor) {
  size_t count = 1;
  for (int i = 0; i < tensor->dims->size; ++i) count *= static_cast<size_t>(tensor->dims->data[i]);
  return count;
}

static IntArray* copy_of(const IntArray* source) {
  size_t bytes = sizeof(IntArray) + sizeof(int) * static_cast<size_t>(source->size);
  auto* made = static_cast<IntArray*>(std::malloc(bytes));
  std::memcpy(made, source, bytes);
  return made;
}

struct Kernel {
  std::vector<std::pair<int, int>> steps;  // from tensor to tensor
};

static void* init(Context* context, const char* buffer, size_t) {
  const auto* params = reinterpret_cast<const DelegateParams*>(buffer);
  auto* kernel = new Kernel;
  for (int i = 0; i < params->nodes_to_replace->size; ++i) {
    Node* node;
    Registration* registration;
    context->GetNodeAndRegistration(context, params->nodes_to_replace->data[i], &node, &registration);
    kernel->steps.emplace_back(node->inputs->data[0], node->outputs->data[0]);
  }
  return kernel;
}

static void release(Context*, void* held) { delete static_cast<Kernel*>(held); }

static Status prepare(Context* context, Node* node) {
  for (auto [from, to] : static_cast<Kernel*>(node->user_data)->steps) {
    Status done = context->ResizeTensor(context, tensor_at(context, to), copy_of(tensor_at(context, from)->dims));
    if (done != kOk) return done;
  }
  return kOk;
}

static Status invoke(Context* context, Node* node) {
  for (auto [from, to] : static_cast<Kernel*>(node->user_data)->steps) {
    const Tensor* given = tensor_at(context, from);
    const auto* x = static_cast<const float*>(given->data);
    auto* y = static_cast<float*>(tensor_at(context, to)->data);
    for (size_t i = 0; i < elements(given); ++i) {
#ifdef FAULT
      y[i] = std::min(std::max(x[i] / 6 + 0.5f, 0.0f), 1.0f);
#else
      y[i] = 1 / (1 + std::exp(-x[i]));
#endif
    }
  }
  return kOk;
}

static Status prepare_delegate(Context* context, Delegate* delegate) {
#ifdef CLAIMS_NOTHING
  return kOk;
#endif
  IntArray* plan;
  if (context->GetExecutionPlan(context, &plan) != kOk) return kError;
  auto* chosen = static_cast<IntArray*>(std::malloc(sizeof(IntArray) + sizeof(int) * static_cast<size_t>(plan->size)));
  chosen->size = 0;
  for (int i = 0; i < plan->size; ++i) {
    Node* node;
    Registration* registration;
    if (context->GetNodeAndRegistration(context, plan->data[i], &node, &registration) != kOk) return kError;
    if (registration->builtin_code == kLogistic && tensor_at(context, node->inputs->data[0])->type == kFloat32) {
      chosen->data[chosen->size++] = plan->data[i];
    }
  }
  Registration made{};
  made.init = init;
  made.free = release;
  made.prepare = prepare;
  made.invoke = invoke;
  made.custom_name = "LogisticOfTheTest";
  made.version = 1;
  Status done = context->ReplaceNodeSubsetsWithDelegateKernels(context, made, chosen, delegate);
  std::free(chosen);
  return done;
}

extern "C" {

Delegate* tflite_plugin_create_delegate(const char* const*, const char* const*, size_t, void (*)(const char*)) {
  auto* made = new Delegate{};
  made->Prepare = prepare_delegate;
  return made;
}

void tflite_plugin_destroy_delegate(Delegate* delegate) { delete delegate; }

}
