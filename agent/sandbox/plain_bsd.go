//go:build unix && !linux

package sandbox

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
func killMarked(string)                  {}
