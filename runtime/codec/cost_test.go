//go:build !race

// The race detector makes pools drop buffers.

package codec_test

import "testing"

// TestOPS5_APayloadIsSealedAndOpenedWithFewAllocations pins the allocations for a payload of 1 KB
// that is not compressed. The cipher costs two, because each payload has a key of its own. The result
// and, if a payload is opened, the ID of its key cost one each.
func TestOPS5_APayloadIsSealedAndOpenedWithFewAllocations(t *testing.T) {
	c := newCodec(t, configs()["encrypted and compressed"])
	plain := noise(1 << 10)
	stored := seal(t, c, place, plain)
	buffer := make([]byte, 0, 2*len(plain))
	for name, tt := range map[string]struct {
		most float64
		call func() error
	}{
		"seal":   {3, func() error { _, err := c.Seal(t.Context(), place, plain); return err }},
		"append": {2, func() error { _, err := c.AppendSeal(t.Context(), buffer, place, plain); return err }},
		"open":   {4, func() error { _, err := c.Open(t.Context(), place, stored); return err }},
	} {
		got := testing.AllocsPerRun(200, func() {
			if err := tt.call(); err != nil {
				t.Fatal(err)
			}
		})
		if got > tt.most {
			t.Errorf("%s: %.0f allocations, want at most %.0f", name, got, tt.most)
		}
	}
}
