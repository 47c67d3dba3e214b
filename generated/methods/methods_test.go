package methods

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/workflow"
)

type registrar struct{ registry workflow.Registry }

func (r *registrar) Registry() *workflow.Registry { return &r.registry }

func same(s string) string { return s }

func TestRegister_TakesEveryReceiver(t *testing.T) {
	Register(&registrar{}, Clock{}, same, &Shop{}, base{})
}

func TestRegister_NamesAMissingReceiver(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "shop *Shop") {
			t.Errorf("Register without a shop says %q, want it to name the parameter", got)
		}
	}()
	Register(&registrar{}, Clock{}, same, nil, base{})
	t.Error("Register accepted a missing shop")
}
