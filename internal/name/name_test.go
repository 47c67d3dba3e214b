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

func TestExported_NeedsALetterWithCases(t *testing.T) {
	for impl, want := range map[string]string{"charge": "Charge", "_charge": "", "注文": "", "éa": "Éa"} {
		got, ok := name.Exported(impl)
		if ok != (want != "") || ok && got != want {
			t.Errorf("Exported(%s) is %q, %v; want %q", impl, got, ok, want)
		}
	}
}
