package dot_import_in_test

import (
	. "strings"
	"testing"
)

func Test(t *testing.T) { _ = Contains("", "") }
