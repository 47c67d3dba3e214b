package generator_test

import (
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/usermodule"
)

// plainOutput returns the generated file of the package orders without additional files.
func plainOutput(t *testing.T) string {
	t.Helper()
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders})
	mustRun(t, dir)
	return read(t, dir, "orders/flow_gen.go")
}

func TestGEN2_SourcesWithCarriageReturnsGenerateTheSame(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": strings.ReplaceAll(orders, "\n", "\r\n")})
	mustRun(t, dir)
	if got, want := read(t, dir, "orders/flow_gen.go"), plainOutput(t); got != want {
		t.Errorf("for sources with carriage returns was written\n%s", got)
	}
	if report := check(t, dir); len(report.Changes) > 0 {
		t.Errorf("a second look: %+v", report.Changes)
	}
	goIn(t, dir, "vet", "./...")
}

// The test proves that files with cgo do not prevent the generation. Without a C compiler the go
// command omits these files.
func TestGEN2_CgoBesideStepsIsNotInTheWay(t *testing.T) {
	dir := usermodule.New(t, map[string]string{
		"orders/orders.go": orders,
		"orders/native.go": "package orders\n\n// static int two(void) { return 2; }\nimport \"C\"\n\nfunc native() int { return int(C.two()) }\n\nvar _ = native\n",
	})
	mustRun(t, dir)
	if got, want := read(t, dir, "orders/flow_gen.go"), plainOutput(t); got != want {
		t.Errorf("beside cgo was written\n%s", got)
	}
	goIn(t, dir, "vet", "./...")
}
