package name_test

import (
	"testing"

	"github.com/flowgen/flowgen/internal/name"
	"github.com/google/go-cmp/cmp"
)

func TestFields_AreExportedAndDistinct(t *testing.T) {
	got := name.Fields([]string{"customer", "id", "ID", "orderId", "_x", "a", "A", "url", "日", "übung"})
	want := []string{"Customer", "ID", "ID2", "OrderId", "X_x", "A", "A2", "URL", "X日", "Übung"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestUnexported_KeepsInitialismsTogether(t *testing.T) {
	for s, want := range map[string]string{
		"Charge": "charge", "HTTPGet": "httpGet", "URL": "url", "URLs": "urls", "IDsOf": "idsOf", "OAuth": "oAuth", "X": "x",
		"HTTP2Get": "http2Get", "Übung": "übung", "ABest": "aBest", "already": "already", "": "", "SQLString": "sqlString",
	} {
		if got := name.Unexported(s); got != want {
			t.Errorf("Unexported(%s) is %s, want %s", s, got, want)
		}
	}
}

func TestExported_NeedsALetterWithCases(t *testing.T) {
	for impl, want := range map[string]string{"charge": "Charge", "_charge": "", "注文": "", "éa": "Éa"} {
		got, ok := name.Exported(impl)
		if ok != (want != "") || ok && got != want {
			t.Errorf("Exported(%s) is %q, %v; want %q", impl, got, ok, want)
		}
	}
}
