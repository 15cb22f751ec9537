package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileSystem is what kind a directory's file system is (statfs(2)), and whether
// other machines may share it.
func fileSystem(dir string) (name string, network bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return "an unknown file system", false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4", false
	case unix.XFS_SUPER_MAGIC:
		return "xfs", false
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs", false
	case unix.TMPFS_MAGIC:
		return "tmpfs", false
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs", false
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs", false
	case 0x2fc12fc1:
		return "zfs", false
	case unix.NFS_SUPER_MAGIC:
		return "NFS", true
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB", true
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph", true
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "AFS", true
	case unix.CODA_SUPER_MAGIC:
		return "Coda", true
	case unix.V9FS_MAGIC:
		return "9p", true
	case unix.OCFS2_SUPER_MAGIC:
		return "OCFS2", true
	case 0x01161970:
		return "GFS2", true
	case 0x0bd00bd0:
		return "Lustre", true
	case 0x47504653:
		return "GPFS", true
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE", true // sshfs, glusterfs, or something local
	}
	return fmt.Sprintf("file system 0x%x", uint32(st.Type)), false
}

// system says what of the kernel matters: /proc, inotify, and who this machine
// is.
func (d *doctor) system() {
	d.proc()
	if limit, used := inotifyUse(); limit > 0 {
		if used >= limit-limit/10 {
			d.add(resultWarning, "inotify", fixes(fmt.Sprintf("sudo sysctl fs.inotify.max_user_instances=%d", 4*limit)),
				"%d of %d instances are in use: a shell lock's release may be found 2 s late", used, limit)
		} else {
			d.ok("inotify", "%d of %d instances in use", used, limit)
		}
	}
	d.openFiles()
}

// proc says whether processes can be seen, and this boot and machine named.
func (d *doctor) proc() {
	var missing []string
	for _, file := range []string{"/proc/self/stat", "/proc/stat", "/proc/sys/kernel/random/boot_id"} {
		if b, err := os.ReadFile(file); err != nil || len(b) == 0 {
			missing = append(missing, file)
		}
	}
	if len(missing) > 0 {
		d.add(resultWrong, "machine", fixes("sudo mount -t proc proc /proc"),
			"%s can't be read: processes that outlive their run are not seen", strings.Join(missing, ", "))
		return
	}
	if b, err := os.ReadFile("/etc/machine-id"); err != nil || strings.TrimSpace(string(b)) == "" {
		d.add(resultWarning, "machine", fixes("sudo systemd-machine-id-setup"), "/etc/machine-id can't be read: after a reboot a run's lease counts as another machine's")
		return
	}
	if _, err := os.Lstat("/proc/1"); err != nil {
		d.add(resultWarning, "machine", fixes("sudo mount -o remount,hidepid=0 /proc"), "/proc hides other users' processes (hidepid): their orphans are not seen")
		return
	}
	d.ok("machine", "/proc, boot id and machine id can be read")
}

// inotifyUse is how many inotify instances this user may have, and has, as far
// as its processes can be looked into.
func inotifyUse() (limit, used int) {
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return 0, 0
	}
	limit, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		st, err := os.Stat(p)
		if err != nil || int(st.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			continue
		}
		fds, _ := os.ReadDir(p + "/fd")
		for _, fd := range fds {
			if to, err := os.Readlink(p + "/fd/" + fd.Name()); err == nil && strings.HasSuffix(to, "inotify") && strings.HasPrefix(to, "anon_inode:") {
				used++
			}
		}
	}
	return limit, used
}
