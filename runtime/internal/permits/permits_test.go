package permits_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/limit"
)

var (
	gpu      = limit.New("permits.gpu", limit.Config{AtOnce: 4})
	host     = limit.NewKeyed[string]("permits.host", limit.Config{AtOnce: 2})
	customer = limit.NewKeyed[string]("permits.customer", limit.Config{AtOnce: 1, Spread: true})
	memory   = limit.NewLocal("permits.memory")
)

func TestMerge_JoinsWhatIsKeptInOnePlace(t *testing.T) {
	own := customer.For("acme").Use(1)
	for name, tc := range map[string]struct {
		uses []limit.Use
		want []event.Use
		slot uint16
	}{
		"nothing":                 {},
		"the larger weight":       {[]limit.Use{gpu.Use(1), gpu.Use(3), gpu.Use(2)}, []event.Use{{Limit: "permits.gpu", Weight: 3}}, gpu.Use(1).Slot},
		"in order":                {[]limit.Use{host.For("b").Use(1), gpu.Use(1), host.For("a").Use(1)}, []event.Use{{Limit: "permits.gpu", Weight: 1}, {Limit: "permits.host", Key: "a", Weight: 1}, {Limit: "permits.host", Key: "b", Weight: 1}}, gpu.Use(1).Slot},
		"spread by its key":       {[]limit.Use{own}, []event.Use{own.Use}, own.Slot},
		"spread, and a local one": {[]limit.Use{memory.Use(512), own}, []event.Use{own.Use, {Limit: "permits.memory", Weight: 512, Local: true}}, own.Slot},
	} {
		got, slot, err := permits.Merge(tc.uses)
		if diff := cmp.Diff(tc.want, got); diff != "" || slot != tc.slot || err != nil {
			t.Errorf("%s: slot %d, %v, want %d; uses (-want +got):\n%s", name, slot, err, tc.slot, diff)
		}
	}
}

func TestMerge_SaysWhichLimitsAreKeptApart(t *testing.T) {
	for name, uses := range map[string][]limit.Use{
		"a limit without Spread": {customer.For("acme").Use(1), gpu.Use(1)},
		"another key":            {customer.For("acme").Use(1), memory.Use(1), customer.For("initech").Use(1)},
	} {
		_, _, err := permits.Merge(uses)
		reason, ok := errors.AsType[*permits.Error](err)
		if !ok || !strings.Contains(reason.Reason, "permits.customer/acme and "+uses[len(uses)-1].Limit) || !strings.Contains(reason.Reason, "without Spread") {
			t.Errorf("%s: got %v, want both limits and what to do", name, err)
		}
	}
}
