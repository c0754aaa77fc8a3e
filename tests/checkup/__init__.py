"""What `treadle doctor` finds where the server is installed: each defect is made, and found."""
