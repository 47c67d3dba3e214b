package main

import "testing"

func TestName_IsThatOfTheFolder(t *testing.T) {
	if got, want := Welcome.Name(), "program.welcome"; got != want {
		t.Errorf("the workflow is called %q, want %q", got, want)
	}
}
