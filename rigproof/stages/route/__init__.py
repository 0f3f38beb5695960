"""Which ways there are between the nodes, which of them the training libraries take, and do they carry?"""
