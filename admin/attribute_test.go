package admin_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestEV11_ARoleWithoutPayloadsSeesOnlyWhatTheRuntimeSet proves that a start passes on attributes,
// and that runs and events contain those which a program has set only for roles that see payloads.
func TestEV11_ARoleWithoutPayloadsSeesOnlyWhatTheRuntimeSet(t *testing.T) {
	e := newEstate(t)
	got, err := e.direct.Start(workflow.OnBehalfOf(t.Context(), "eve"), admin.Start{Workflow: "orders.fulfil", Attributes: map[string]string{"tenant": "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	for role, sees := range map[admin.Role]bool{admin.RoleViewer: false, admin.RolePayloads: true, admin.RoleOperator: true} {
		s := e.as(role, "")
		run, err := s.Run(t.Context(), got.Run)
		page, also := s.Events(t.Context(), got.Run, 1, 0)
		if err != nil || also != nil || len(page.Events) == 0 {
			t.Fatalf("%s: got %v, %v, %d events", role, err, also, len(page.Events))
		}
		want := map[string]string{"principal": "eve", "build": run.Attributes["build"]}
		if sees {
			want["tenant"] = "acme"
		}
		if len(want["build"]) != 12 || !cmp.Equal(run.Attributes, want) || !cmp.Equal(page.Events[0].Attributes, want) {
			t.Errorf("%s: the run has %v and its first event %v, want %v", role, run.Attributes, page.Events[0].Attributes, want)
		}
	}
	var bad *workflow.InvalidError
	_, err = e.direct.Start(t.Context(), admin.Start{Workflow: "orders.fulfil", Attributes: map[string]string{"build": "mine"}})
	if p := admin.ProblemOf(err); !errors.As(err, &bad) || p.Code != admin.CodeInput {
		t.Errorf("a reserved key: got %v, code %s", err, p.Code)
	}
}
