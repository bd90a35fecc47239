// Small kernels of every structure that schedules know, at sizes that divide nothing.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "pock/loop/interpret.h"
#include "pock/loop/loop.h"

namespace pock::loop {

// An int8 convolution, channels last: u8 inputs around the zero point 119, weights in places of four input channels, words
// that sum up, and a requantised result around -5. `ws` holds the weights' sums over input channels, since
// sum (x - 119) * w = sum x * w - 119 * sum w; `inside` says which results were not clamped.
constexpr const char* kConvInt8 =
    R"(kernel @conv_int8(in x: u8[2,3,4,10], in w: i8[3,3,3,21,4], in ws: i32[3,3,21], in b: i32[21], in s: f32[21],
                  out y: i8[2,3,4,21], out inside: mask[2,3,4,21]) {
  each n in 0..2 { each oc in 0..21 { each oy in 0..3 { each ox in 0..4 {
    reg acc: i32
    acc = b[oc]
    for ky in max(0, 1 - oy)..min(3, 4 - oy) { for kx in max(0, 1 - ox)..min(3, 5 - ox) {
      acc = acc - ws[ky,kx,oc] * 119
      for ic in 0..10 {
        acc = acc + i32(x[n,oy + ky - 1,ox + kx - 1,ic]) * i32(w[ky,kx,floordiv(ic, 4),oc,mod(ic, 4)])
      }
    } }
    reg v: f32
    v = round_even(f32(acc) * s[oc]) - 5
    y[n,oy,ox,oc] = i8(v)
    inside[n,oy,ox,oc] = -128 <= v && v <= 127
  } } } }
})";

constexpr const char* kKernels[] = {
    kConvInt8,
    R"(kernel @squared_and_summed(in x: f32[3,4,7], out y: f32[3,4,7], out s: f32[3,7]) {
  each i in 0..3 { each j in 0..4 { each c in 0..7 { y[i,j,c] = x[i,j,c] * x[i,j,c] } } }
  each p in 0..3 { each k in 0..7 {
    reg acc: f32
    acc = 0
    for r in p * 5..min(p * 5 + 5, 12) { acc = acc + y[floordiv(r, 4),mod(r, 4),k] }
    s[p,k] = acc
  } }
})",
    R"(kernel @summed_in_pairs(in x: f32[10], out y: f32[10], out s: f32[5]) {
  each i in 0..10 { y[i] = x[i] + 1 }
  each p in 0..5 { s[p] = y[p * 2] * y[p * 2 + 1] }
})",
    R"(kernel @matmul(in a: f32[7,5], in b: f32[5,19], out y: f32[7,19]) {
  each i in 0..7 { each j in 0..19 {
    reg acc: f32
    acc = 0
    for k in 0..5 { acc = fma(a[i,k], b[k,j], acc) }
    y[i,j] = acc
  } }
})",
    R"(kernel @matmul_transposed(in a: f32[5,7], in b: f32[19,5], out y: f32[7,19]) {
  each i in 0..7 { each j in 0..19 {
    reg acc: f32
    acc = 0
    for k in 0..5 { acc = fma(a[k,i], b[j,k], acc) }
    y[i,j] = acc
  } }
})",
    R"(kernel @conv(in x: f32[2,3,9,11], in w: f32[5,3,3,3], out y: f32[2,5,9,11]) {
  each n in 0..2 { each oc in 0..5 { each oy in 0..9 { each ox in 0..11 {
    reg acc: f32
    acc = 0
    for ky in max(0, 1 - oy)..min(3, 10 - oy) { for kx in max(0, 1 - ox)..min(3, 12 - ox) { for ic in 0..3 {
      acc = fma(x[n,ic,oy + ky - 1,ox + kx - 1], w[oc,ic,ky,kx], acc)
    } } }
    y[n,oc,oy,ox] = acc
  } } } }
})",
    R"(kernel @conv_stride2(in x: f32[1,2,9,13], in w: f32[3,2,3,3], out y: f32[1,3,5,7]) {
  each n in 0..1 { each oc in 0..3 { each oy in 0..5 { each ox in 0..7 {
    reg acc: f32
    acc = 0
    for ky in max(0, 1 - oy * 2)..min(3, 10 - oy * 2) { for kx in max(0, 1 - ox * 2)..min(3, 14 - ox * 2) {
      for ic in 0..2 { acc = fma(x[n,ic,oy * 2 + ky - 1,ox * 2 + kx - 1], w[oc,ic,ky,kx], acc) }
    } }
    y[n,oc,oy,ox] = acc
  } } } }
})",
    R"(kernel @conv_input_gradient(in g: f32[1,3,5,7], in w: f32[3,2,3,3], out y: f32[1,2,9,13]) {
  each n in 0..1 { each ic in 0..2 { each iy in 0..9 { each ix in 0..13 {
    reg acc: f32
    acc = 0
    for ky in mod(iy + 1, 2)..3 step 2 { for kx in mod(ix + 1, 2)..3 step 2 {
      when iy + 1 - ky >= 0 && iy + 1 - ky < 10 && ix + 1 - kx >= 0 && ix + 1 - kx < 14 {
        for oc in 0..3 {
          acc = fma(g[n,oc,floordiv(iy + 1 - ky, 2),floordiv(ix + 1 - kx, 2)], w[oc,ic,ky,kx], acc)
        }
      }
    } }
    y[n,ic,iy,ix] = acc
  } } } }
})",
    R"(kernel @conv_weight_gradient(in x: f32[2,2,5,6], in g: f32[2,3,5,6], out y: f32[3,2,3,3]) {
  each oc in 0..3 { each ic in 0..2 { each ky in 0..3 { each kx in 0..3 {
    reg total: f32
    total = 0
    for c in 0..2 {
      reg acc: f32
      acc = 0
      for n in c..c + 1 { for oy in max(0, 1 - ky)..min(5, 6 - ky) { for ox in max(0, 1 - kx)..min(6, 7 - kx) {
        acc = fma(x[n,ic,oy + ky - 1,ox + kx - 1], g[n,oc,oy,ox], acc)
      } } }
      total = total + acc
    }
    y[oc,ic,ky,kx] = total
  } } } }
})",
    R"(kernel @pointwise(in x: f32[3,5,7], in b: f32[5], out y: f32[3,5,7], out m: mask[3,5,7]) {
  each i0 in 0..3 { each i1 in 0..5 { each i2 in 0..7 {
    reg t: f32
    t = x[i0,i1,i2] + b[i1]
    y[i0,i1,i2] = select(t < 0, 0, tanh(t) * exp(t))
    m[i0,i1,i2] = t < 0
  } } }
})",
    R"(kernel @flat(in x: f32[3,5,7], in z: f32[3,5,7], in s: f32[], out y: f32[3,5,7]) {
  each i0 in 0..3 { each i1 in 0..5 { each i2 in 0..7 { y[i0,i1,i2] = x[i0,i1,i2] * s + z[i0,i1,i2] } } }
})",
    R"(kernel @row_sum(in x: f32[5,37], out y: f32[5]) {
  each r in 0..5 {
    reg lanes: f32[16]
    each l in 0..16 { lanes[l] = 0 }
    for b in 0..3 { each l in 0..min(16, 37 - b * 16) { lanes[l] = lanes[l] + x[r,b * 16 + l] } }
    each l in 0..8 { lanes[l] = lanes[l] + lanes[l + 8] }
    each l in 0..4 { lanes[l] = lanes[l] + lanes[l + 4] }
    each l in 0..2 { lanes[l] = lanes[l] + lanes[l + 2] }
    y[r] = lanes[0] + lanes[1]
  }
})",
    R"(kernel @channel_sum(in x: f32[3,5,4,6], out y: f32[5]) {
  each c in 0..5 {
    reg total: f32
    total = 0
    for b in 0..2 {
      reg acc: f32
      acc = 0
      for r in b * 6..min(12, b * 6 + 6) { for x0 in 0..6 { acc = acc + x[floordiv(r, 4),c,mod(r, 4),x0] } }
      total = total + acc
    }
    y[c] = total
  }
})",
    R"(kernel @normalize(in x: f32[67,19], in m: f32[19], in v: f32[19], in s: f32[19], out y: f32[67,19]) {
  each i in 0..67 { each j in 0..19 {
    y[i,j] = (x[i,j] - m[j]) * (s[j] / sqrt(v[j] * v[j] + 1e-05)) + s[j] * v[j]
  } }
})",
    R"(kernel @channels_last_sums(in g: f32[2,9,40], in x: f32[2,9,40], in m: f32[40], out y: f32[40], out z: f32[40]) {
  each c in 0..40 {
    reg mean: f32
    mean = m[c]
    reg total: f32
    total = 0
    for n in 0..2 {
      reg sum: f32
      sum = 0
      reg squares: f32
      squares = 0
      for p in 0..9 {
        sum = sum + g[n,p,c]
        squares = fma(g[n,p,c], x[n,p,c] * (m[c] * m[c]) - mean, squares)
      }
      total = total + sum * squares
    }
    y[c] = total
    z[c] = total * mean
  }
})",
    R"(kernel @depthwise(in x: f32[2,3,19,21], in w: f32[3,3,21], out y: f32[2,3,19,21]) {
  each n in 0..2 { each c in 0..21 { each oy in 0..3 { each ox in 0..19 {
    reg acc: f32
    acc = 0
    for ky in max(0, 1 - oy)..min(3, 4 - oy) { for kx in max(0, 1 - ox)..min(3, 20 - ox) {
      acc = fma(x[n,oy + ky - 1,ox + kx - 1,c], w[ky,kx,c], acc)
    } }
    y[n,oy,ox,c] = acc
  } } } }
})",
    R"(kernel @depthwise_stride2(in x: f32[1,5,35,21], in w: f32[5,5,21], out y: f32[1,3,18,21]) {
  each n in 0..1 { each c in 0..21 { each oy in 0..3 { each ox in 0..18 {
    reg acc: f32
    acc = 0
    for ky in max(0, 2 - oy * 2)..min(5, 7 - oy * 2) { for kx in max(0, 2 - ox * 2)..min(5, 37 - ox * 2) {
      acc = fma(x[n,oy * 2 + ky - 2,ox * 2 + kx - 2,c], w[ky,kx,c], acc)
    } }
    y[n,oy,ox,c] = acc
  } } } }
})",
    R"(kernel @depthwise_input_gradient(in g: f32[1,3,18,21], in w: f32[3,3,21], out y: f32[1,5,35,21]) {
  each n in 0..1 { each c in 0..21 { each iy in 0..5 { each ix in 0..35 {
    reg acc: f32
    acc = 0
    for ky in mod(iy + 1, 2)..min(3, iy + 2) step 2 { for kx in mod(ix + 1, 2)..min(3, ix + 2) step 2 {
      acc = fma(g[n,floordiv(iy + 1 - ky, 2),floordiv(ix + 1 - kx, 2),c], w[ky,kx,c], acc)
    } }
    y[n,iy,ix,c] = acc
  } } } }
})",
    R"(kernel @depthwise_weight_gradient(in g: f32[2,7,13,53], in x: f32[2,7,13,53], out y: f32[3,3,1,53]) {
  each c in 0..53 { each m in 0..1 { each ky in 0..3 { each kx in 0..3 {
    reg total: f32
    total = 0
    for b in 0..2 {
      reg acc: f32
      acc = 0
      for r in b * 8..min(14, b * 8 + 8) {
        when 0 <= ky + mod(r, 7) - 1 && ky + mod(r, 7) - 1 < 7 { for x0 in max(0, 1 - kx)..min(13, 14 - kx) {
          acc = fma(g[floordiv(r, 7),mod(r, 7),x0,c], x[floordiv(r, 7),ky + mod(r, 7) - 1,kx + x0 - 1,c], acc)
        } }
      }
      total = total + acc
    }
    y[ky,kx,m,c] = total
  } } } }
})",
    R"(kernel @maxpool(in x: f32[2,3,9,11], out y: f32[2,3,8,10]) {
  each n in 0..2 { each c in 0..3 { each oy in 0..8 { each ox in 0..10 {
    reg best: f32
    best = -inf
    for ky in 0..2 { for kx in 0..2 { best = max(best, x[n,c,oy + ky,ox + kx]) } }
    y[n,c,oy,ox] = best
  } } } }
})",
    R"(kernel @few_rows(in a: f32[3,29], in b: f32[43,29], out y: f32[3,43]) {
  each i in 0..3 { each j in 0..43 {
    reg acc: f32
    acc = 0
    for k in 0..29 { acc = fma(a[i,k], b[j,k], acc) }
    y[i,j] = acc
  } }
})",
    R"(kernel @panels(in x: f32[3,2,95,8], out y: f32[5,2,24,19]) {
  each i in 0..5 { each t in 0..2 { each r in 0..24 { each c in 0..19 {
    y[i,t,r,c] = x[floordiv(r, 8),t,i * 19 + c,mod(r, 8)]
  } } } }
})",
    R"(kernel @transposed(in x: f32[43,37], in z: f32[37,43], out y: f32[37,43]) {
  each i in 0..37 { each j in 0..43 { y[i,j] = x[j,i] * z[i,j] + x[j,i] } }
})",
    // What one nest makes, the next one reads often: in tiles, in bands with rows in common, transposed.
    R"(kernel @staged_product(in x: f32[3,5,7], in s: f32[7], in w: f32[7,19], out y: f32[3,5,19], workspace z: f32[3,5,7]) {
  each p in 0..3 { each q in 0..5 { each r in 0..7 {
    reg t: f32
    t = x[p,q,r] * (1 / sqrt(s[r] * s[r] + 1))
    z[p,q,r] = max(t, 0)
  } } }
  each n in 0..3 { each i in 0..5 { each j in 0..19 {
    reg acc: f32
    acc = 0
    for k in 0..7 { acc = fma(z[n,i,k], w[k,j], acc) }
    y[n,i,j] = acc
  } } }
})",
    R"(kernel @staged_windows(in x: f32[2,9,11,6], in w: f32[3,3,6], out y: f32[2,5,6,6], workspace z: f32[2,9,11,6]) {
  each p in 0..2 { each q in 0..9 { each r in 0..11 { each s in 0..6 { z[p,q,r,s] = x[p,q,r,s] * x[p,q,r,s] } } } }
  each n in 0..2 { each oy in 0..5 { each ox in 0..6 { each c in 0..6 {
    reg acc: f32
    acc = 0
    for ky in max(0, 1 - oy * 2)..min(3, 10 - oy * 2) { for kx in max(0, 1 - ox * 2)..min(3, 12 - ox * 2) {
      acc = fma(z[n,oy * 2 + ky - 1,ox * 2 + kx - 1,c], w[ky,kx,c], acc)
    } }
    y[n,oy,ox,c] = acc
  } } } }
})",
    R"(kernel @staged_sums(in x: f32[7,40], in g: f32[40,9], out y: f32[7,9], workspace z: f32[40,7]) {
  each q in 0..7 { each p in 0..40 { z[p,q] = -x[q,p] } }
  each i in 0..7 { each j in 0..9 {
    reg total: f32
    total = 0
    for chunk in 0..3 {
      reg sum: f32
      sum = 0
      for k in chunk * 16..min(chunk * 16 + 16, 40) { sum = fma(z[k,i], g[k,j], sum) }
      total = total + sum
    }
    y[i,j] = total
  } }
})",
    R"(kernel @gather(in x: f32[6,9], in t: i32[13], out y: f32[13,9]) {
  each i in 0..13 { each j in 0..9 { y[i,j] = x[i64(t[i]),j] } }
})"};

// Arguments filled with small numbers that make rounding show; results and workspace with NaN.
struct Arguments {
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> pointers;

  explicit Arguments(const Kernel& k, unsigned seed = 1) {
    std::mt19937 random(seed);
    for (const BufferRef& b : k.args) {
      memory.emplace_back(static_cast<size_t>(b->type.bytes()), std::byte{0xff});
      pointers.push_back(memory.back().data());
      if (b->space != Space::in && b->space != Space::inout) continue;
      for (int64_t i = 0; i < b->type.elements(); ++i) {
        if (b->type.dtype == DType::f32)
          static_cast<float*>(pointers.back())[i] = std::uniform_real_distribution<float>(-1, 1)(random);
        else if (size_of(b->type.dtype) == 1)
          static_cast<uint8_t*>(pointers.back())[i] = static_cast<uint8_t>(random());
        else
          static_cast<int32_t*>(pointers.back())[i] = static_cast<int32_t>(random() % 6);
      }
    }
  }
};

// All arguments as they are afterwards, but for workspace, which is nobody's result.
inline std::vector<std::vector<std::byte>> results(const Kernel& k, bool reverse = false) {
  Arguments a(k);
  interpret(k, a.pointers, Precision::f32, reverse);
  std::vector<std::vector<std::byte>> left;
  for (size_t i = 0; i < k.args.size(); ++i)
    if (k.args[i]->space != Space::workspace) left.push_back(std::move(a.memory[i]));
  return left;
}

}  // namespace pock::loop
