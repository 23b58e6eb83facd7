package hw

// appleWorkingSet returns how much of total the GPU of an Apple machine can use. wiredLimitMB is the sysctl
// iogpu.wired_limit_mb: a number that somebody set, or 0 for the system's own share, which Metal reports as
// recommendedMaxWorkingSetSize. Seen there: two thirds on machines of 16 and 32 GiB, three quarters and a little more from
// 36 GiB on. The lower figure is taken, because going over it can take the whole machine down.
func appleWorkingSet(total, wiredLimitMB int64) (bytes int64, estimated bool) {
	if wiredLimitMB > 0 {
		return min(total, wiredLimitMB<<20), false
	}
	if total <= 32<<30 {
		return total / 3 * 2, true
	}
	return total / 4 * 3, true
}

// appleFeatures are the optional instruction sets that matter to inference: the sysctl that says whether there is one, and
// the name under which Linux knows it, so that the same word means the same everywhere.
func appleFeatures() [][2]string {
	return [][2]string{
		{"hw.optional.AdvSIMD", "asimd"},
		{"hw.optional.arm.FEAT_FP16", "asimdhp"},
		{"hw.optional.arm.FEAT_DotProd", "asimddp"},
		{"hw.optional.arm.FEAT_I8MM", "i8mm"},
		{"hw.optional.arm.FEAT_BF16", "bf16"},
		{"hw.optional.arm.FEAT_SME", "sme"},
		{"hw.optional.arm.FEAT_SME2", "sme2"},
	}
}
