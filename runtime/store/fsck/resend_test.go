package fsck

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestRewrite_KeepsTheOrderOfWhatAReceiverIsSent(t *testing.T) {
	sends := []store.Send{{ID: "start", To: "a"}, {ID: "other", To: "b"}, {ID: "message", To: "a"}, {ID: "cancel", To: "a"}, {ID: "message", To: "a"}}
	there := func(phases map[event.ItemID]store.Phase) map[event.ItemID]store.Outgoing {
		all := map[event.ItemID]store.Outgoing{}
		for _, s := range sends {
			if p, ok := phases[s.ID]; ok {
				all[s.ID] = store.Outgoing{Send: s, Phase: p}
			}
		}
		return all
	}
	for name, tt := range map[string]struct {
		there          map[event.ItemID]store.Phase
		again          event.ItemID
		removed, wrote []event.ItemID
	}{
		"what was caused later follows": {
			map[event.ItemID]store.Phase{"other": store.PhaseFresh, "message": store.PhaseFresh, "cancel": store.PhaseAnswered}, "start",
			[]event.ItemID{"message", "cancel"}, []event.ItemID{"start", "message", "cancel"},
		},
		"what was settled stays": {
			map[event.ItemID]store.Phase{"message": store.PhaseSettled, "cancel": store.PhaseFresh}, "start",
			[]event.ItemID{"cancel"}, []event.ItemID{"start", "cancel"},
		},
		"what was caused before stays": {
			map[event.ItemID]store.Phase{"start": store.PhaseFresh, "message": 9}, "message",
			[]event.ItemID{"message"}, []event.ItemID{"message"},
		},
		"what is gone is not brought back": {nil, "message", nil, []event.ItemID{"message"}},
	} {
		t.Run(name, func(t *testing.T) {
			var m store.Rebuild
			rewrite(&m, sends, there(tt.there), map[event.ItemID]bool{tt.again: true})
			var removed, wrote []event.ItemID
			for _, o := range m.Remove {
				removed = append(removed, o.ID)
			}
			for _, s := range m.Write {
				wrote = append(wrote, s.ID)
			}
			if diff := cmp.Diff(tt.removed, removed); diff != "" {
				t.Errorf("removed (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.wrote, wrote); diff != "" {
				t.Errorf("written (-want +got)\n%s", diff)
			}
		})
	}
}
