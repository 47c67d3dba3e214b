package codec_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkCodec(b *testing.B) {
	for _, kind := range []string{"compressed", "encrypted", "encrypted and compressed"} {
		for _, size := range []int{100, 1 << 10, 64 << 10, 1 << 20} {
			c := newCodec(b, configs()[kind])
			plain := orders(size)
			stored := seal(b, c, place, plain)
			b.Run(fmt.Sprintf("%s/seal/%d", kind, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, err := c.Seal(b.Context(), place, plain); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s/open/%d", kind, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, err := c.Open(b.Context(), place, stored); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// orders returns JSON of n bytes with varying values.
func orders(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := []byte{'['}
	for len(b) < n {
		b = fmt.Appendf(b, `{"order":"%08x","customer":%d,"amount":%.2f,"currency":"EUR","items":[{"sku":"%06x","count":%d}]},`, r.Uint32(), r.IntN(1e6), r.Float64()*1000, r.IntN(1e6), r.IntN(9))
	}
	return append(b[:n-1], ']')
}
