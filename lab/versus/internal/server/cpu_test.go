package server_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/flowgen/flowgen/lab/versus/internal/server"
)

func TestCPU_CountsChildrenThatHaveEnded(t *testing.T) {
	before, err := server.CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	after, err := server.CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after <= before {
		t.Errorf("CPU time %v before a child has used some, %v afterwards, want more", before, after)
	}
}

func TestCPU_CountsChildrenThatWork(t *testing.T) {
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
	before, err := server.CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	own, err := server.CPU(busy.Process.Pid)
	for ; err == nil && own == 0; own, err = server.CPU(busy.Process.Pid) {
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := server.CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after <= before {
		t.Errorf("CPU time %v, %v after a child has worked, want more", before, after)
	}
}
