package spelling_test

import (
	"testing"

	"github.com/flowgen/flowgen/internal/spelling"
)

func TestNearest_IsCautious(t *testing.T) {
	for word, want := range map[string]string{
		"stpe": "step", "step": "step", "Step": "step", "steps": "step", "wrokflow": "workflow", "work": "", "banana": "", "": "",
	} {
		if got := spelling.Nearest(word, []string{"step", "workflow", "dag"}); got != want {
			t.Errorf("Nearest(%q) is %q, want %q", word, got, want)
		}
	}
}
