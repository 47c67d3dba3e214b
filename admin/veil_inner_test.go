package admin

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOPS3_TokensOfHooksAreVeiled proves that a principal that may not resume hooks cannot read a
// token in any field of a result. A token is sufficient to resume a hook.
func TestOPS3_TokensOfHooksAreVeiled(t *testing.T) {
	for text, want := range map[string]string{
		"hook:order 7, \"paid\"": "hook:***",
		`workflow id "hook:order \"7\", paid" is already active: run wrun_1`:               `workflow id "hook:***" is already active: run wrun_1`,
		`open hook: token "order 7" is in use by a hook of run wrun_1`:                     `open hook: token "***" is in use by a hook of run wrun_1`,
		"find run id:hook:order-7: it is not there":                                        "find run id:hook:*** it is not there",
		"it differs:\n- token order 7\n+ token order 8\nat f.go:7":                         "it differs:\n- token ***\n+ token ***\nat f.go:7",
		"send to wrun_01JD5V8K2M3N4P5Q6R7S8T9V0W.AAAAAAAAAAAAAAAAAAAAA_ at once":           "send to wrun_01JD5V8K2M3N4P5Q6R7S8T9V0W.*** at once",
		"the webhook:order-7 of wrun_01JD5V8K2M3N4P5Q6R7S8T9V0W waits for the hook: a day": "the webhook:order-7 of wrun_01JD5V8K2M3N4P5Q6R7S8T9V0W waits for the hook: a day",
	} {
		if got := veiled(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	cause := &Failure{Message: `open hook: token "order-7" is in use`, Data: json.RawMessage(`{"token":"order-7","holder":"wrun_1"}`)}
	page := []Run{{
		ID: "wrun_1", WorkflowID: "hook:order-7", CreatedAt: time.Unix(1, 0).UTC(), Waits: []string{"the token of hook paid"}, Mismatch: &Mismatch{Diff: "- token a"},
		Failure: &Failure{Message: "refused", Data: json.RawMessage(`{"n":1}`), Causes: []*Failure{cause}}, Input: Payload(`"hook:order-7"`), Tags: map[string]string{"region": "eu"},
	}}
	want := []Run{{
		ID: "wrun_1", WorkflowID: "hook:***", CreatedAt: time.Unix(1, 0).UTC(), Waits: []string{"the token of hook paid"}, Mismatch: &Mismatch{Diff: "- token ***"},
		Failure: &Failure{Message: "refused", Data: json.RawMessage(`{"n":1}`), Causes: []*Failure{{Message: `open hook: token "***" is in use`}}}, Input: Payload(`"hook:order-7"`), Tags: map[string]string{"region": "eu"},
	}}
	kept := page
	veil(Principal{Role: RoleOperator}, &page)
	if page[0].WorkflowID != "hook:order-7" {
		t.Error("an operator does not see a token")
	}
	veil(Principal{Role: RolePayloads}, &page)
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if kept[0].WorkflowID != "hook:order-7" || cause.Data == nil || kept[0].Mismatch.Diff != "- token a" {
		t.Errorf("what others have was changed: %+v", kept[0])
	}
}
