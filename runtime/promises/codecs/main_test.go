// Package codecs_test proves the promises about codecs: stores contain no user data that can be
// read without a key, and all features work with sealed data. All clients of its tests have a codec.
package codecs_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if err := flag.Set("codec", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
