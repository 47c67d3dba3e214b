package codec_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
)

// turning is a provider of two keys, of which another one becomes active with each turn.
type turning struct{ turns atomic.Int64 }

func (k *turning) Active(ctx context.Context) (codec.Key, error) {
	return k.Key(ctx, []string{"k1", "k2"}[k.turns.Load()%2])
}

func (k *turning) Key(_ context.Context, id string) (codec.Key, error) { return key(id, id[1]), nil }

// TestOPS5_PayloadsAreSealedAndOpenedConcurrentlyWhileKeysChange proves that goroutines that seal and
// open the same and different payloads share no buffer, and that each key has one form of a payload.
func TestOPS5_PayloadsAreSealedAndOpenedConcurrentlyWhileKeysChange(t *testing.T) {
	const goroutines, rounds = 16, 12
	payloads := [][]byte{[]byte("7"), noise(1 << 10), orders(1 << 10), text(3 << 10), orders(20 << 10), noise(6 << 10)}
	keys := &turning{}
	c := newCodec(t, codec.Config{Keys: keys})
	var forms sync.Map // the stored form by place, payload and key
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range rounds {
				plain := payloads[(g+i)%len(payloads)]
				at := codec.Place{Owner: fmt.Sprint("run ", g%3), Field: "step_completed/7/payload"}
				prefix := []byte("before")
				both, err := c.AppendSeal(t.Context(), bytes.Clone(prefix), at, plain)
				if err != nil || !bytes.HasPrefix(both, prefix) {
					t.Errorf("append: %.20q, %v", both, err)
					return
				}
				stored := both[len(prefix):]
				keys.turns.Add(1)
				info, err := codec.Inspect(stored)
				if err != nil {
					t.Error(err)
				}
				id := fmt.Sprint(at.Owner, " ", (g+i)%len(payloads), " ", info.Key)
				if first, loaded := forms.LoadOrStore(id, stored); loaded && !bytes.Equal(first.([]byte), stored) {
					t.Errorf("%s has two stored forms", id)
				}
				forms.Range(func(k, v any) bool {
					opened, err := c.Open(t.Context(), codec.Place{Owner: k.(string)[:5], Field: at.Field}, v.([]byte))
					if err != nil || !bytes.Equal(opened, payloads[k.(string)[6]-'0']) {
						t.Errorf("%s was opened as %.20q, %v", k, opened, err)
					}
					return i%4 == 0
				})
			}
		})
	}
	all.Wait()
	if keys.turns.Load() != goroutines*rounds {
		t.Errorf("%d turns", keys.turns.Load())
	}
}
