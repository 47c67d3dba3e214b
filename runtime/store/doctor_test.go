package store_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/store"
)

func TestReport_KeepsItsWordsInJSON(t *testing.T) {
	want := store.Report{Findings: []store.Finding{
		{Check: "eviction", Severity: store.SeverityFail, Node: "a:1", Found: "allkeys-lru", Want: "noeviction", Fix: "Repair it."},
		{Check: "role", Found: "master"},
	}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"findings":[{"check":"eviction","severity":"fail","node":"a:1","found":"allkeys-lru","want":"noeviction","fix":"Repair it."},` +
		`{"check":"role","severity":"ok","found":"master"}]}`
	if diff := cmp.Diff(text, string(b)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var got store.Report
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"findings":[{"severity":"bad"}]}`), &got); err == nil {
		t.Error("a severity that does not exist was read")
	}
	if _, err := json.Marshal(store.Severity(9)); err == nil {
		t.Error("a severity that does not exist was written")
	}
}

func TestReport_IsAsBadAsItsWorstFinding(t *testing.T) {
	var r store.Report
	if got := r.Worst(); got != store.SeverityOK {
		t.Errorf("an empty report is %v, want ok", got)
	}
	for _, s := range []store.Severity{store.SeverityInfo, store.SeverityFail, store.SeverityWarn} {
		r.Findings = append(r.Findings, store.Finding{Severity: s})
	}
	if got := r.Worst(); got != store.SeverityFail {
		t.Errorf("the report is %v, want fail", got)
	}
}

func TestFinding_SaysEverythingOnOneLine(t *testing.T) {
	f := store.Finding{Check: "eviction", Severity: store.SeverityFail, Node: "a:1", Found: "allkeys-lru", Want: "noeviction", Fix: "Repair it."}
	if got, want := f.String(), "fail eviction on a:1: allkeys-lru; want noeviction: Repair it."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
