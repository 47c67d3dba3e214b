package admin_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestOPS1_AnExportMissesARunThatWasNamed proves that, if runs are deleted during an export, the
// export returns an error for a run that was named, but omits a run that a filter selected.
func TestOPS1_AnExportMissesARunThatWasNamed(t *testing.T) {
	for what, tt := range map[string]struct {
		named bool
		want  error
	}{"named": {true, store.ErrRunNotFound}, "selected": {false, nil}} {
		e := newEstate(t)
		r := admin.ExportRequest{Filter: admin.Filter{Workflow: "orders.fulfil"}}
		if tt.named {
			r = admin.ExportRequest{Runs: []string{e.ada, e.bob, e.nobodys}}
		}
		deleted := false
		r.Told = func(n admin.ExportCount) {
			if n.Runs != 1 || deleted {
				return
			}
			deleted = true
			for _, run := range []string{e.ada, e.bob, e.nobodys} { // one of these runs is already in the file
				for _, verb := range []string{"terminate", "delete"} {
					if _, err := e.direct.Act(t.Context(), run, admin.Action{Verb: verb}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		var b bytes.Buffer
		n, err := e.direct.Export(t.Context(), r, &b)
		if !deleted || !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", what, err, tt.want)
		}
		if tt.want == nil && n.Runs != 1 {
			t.Errorf("%s: %+v, want the run that was written before", what, n)
		}
	}
}
