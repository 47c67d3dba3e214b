package admin_test

import (
	"errors"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// plain is a store without failure groups. It hides the optional interfaces of the inner store.
type plain struct{ store.Store }

func TestOPS1_AFilterOfFailuresThatMakesNoSenseIsRefused(t *testing.T) {
	client := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	defer client.Close()
	service := admin.New(client)
	for what, f := range map[string]admin.FailureFilter{
		"kind": {Kinds: []string{"odd"}}, "group": {Group: "f1:x"}, "cursor": {Cursor: "x"}, "limit": {Limit: 1001}, "budget": {Budget: -1},
	} {
		_, err := service.Failures(t.Context(), f)
		if p := admin.ProblemOf(err); p == nil || p.Code != admin.CodeInput || p.Fix == "" {
			t.Errorf("%s: got %+v, want a problem with the input, and its fix", what, p)
		}
	}
	if _, err := service.Runs(t.Context(), admin.Filter{Group: "f1:x"}); admin.ProblemOf(err).Code != admin.CodeInput {
		t.Errorf("runs of such a group: got %v", err)
	}
	if page, err := service.Failures(t.Context(), admin.FailureFilter{Kinds: admin.FailureKinds()}); err != nil || page.Groups == nil || len(page.Groups) != 0 {
		t.Errorf("failures of an empty store: got %+v, %v, want a page without groups", page, err)
	}
}

func TestOPS1_AStoreWithoutGroupsSaysSo(t *testing.T) {
	client := workflow.NewClient(plain{memstore.New()}, workflow.ClientConfig{})
	defer client.Close()
	_, err := admin.New(client).Failures(t.Context(), admin.FailureFilter{})
	if p := admin.ProblemOf(err); !errors.Is(err, workflow.ErrNotSupported) || p.Code != admin.CodeUnsupported {
		t.Errorf("got %v", err)
	}
}

func TestOPS1_AStoreThatCannotTellItsFleetSaysSo(t *testing.T) {
	client := workflow.NewClient(plain{memstore.New()}, workflow.ClientConfig{})
	defer client.Close()
	for what, err := range fleetErrors(t.Context(), admin.New(client)) {
		if p := admin.ProblemOf(err); p == nil || p.Code != admin.CodeUnsupported {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
